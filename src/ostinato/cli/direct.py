"""Client without a server: the endpoints, called in this process with the database of the settings."""

import logging
import os
import pwd
from datetime import datetime
from typing import Final

from ostinato.cli.client import ApiReply, Request
from ostinato.config import Settings
from ostinato.core.access import Caller, Role
from ostinato.core.errors import OstinatoError
from ostinato.core.schedule import no_limit
from ostinato.endpoints.table import Ask, find
from ostinato.service import Service
from ostinato.shapes.answers import ErrorAnswer, answer_of, error_text, status_of, written
from ostinato.wiring import open_parts

INTERNAL: Final = "Internal error; the lines above have the details. Please report it."

log = logging.getLogger("ostinato.cli")


class InProcessClient:
    """A client that calls the functions of the endpoints, in the name of the user at the terminal."""

    is_foreign = False

    def __init__(self, database: str | None) -> None:
        self._parts = open_parts(Settings.load({"database_url": database}))
        self._me = Caller(whoami(), Role.ADMIN)
        parts = self._parts
        self._service = Service(parts.store, parts.clock, parts.chance, permits=parts.settings.permits)

    def now(self) -> datetime:
        return self._parts.clock.now()

    def send(self, request: Request) -> ApiReply:
        try:
            return self._answered(request)
        except OstinatoError as error:
            return ApiReply(status_of(error), error_text(answer_of(error)).encode(), {})
        except Exception as error:
            log.error("A request failed: %s %s", request.method, request.path, exc_info=error)
            return ApiReply(500, error_text(ErrorAnswer(detail=INTERNAL)).encode(), {})

    def _answered(self, request: Request) -> ApiReply:
        ask = Ask(
            self._service, self._me, self._parts.settings.timezone, headers=request.headers, allowed=lambda: no_limit
        )
        endpoint, places = find(self._service.features, request.method, request.path)
        query = {name: value for name, value in request.query.items() if value is not None}
        answer = endpoint.answer(ask, places, query, request.body)
        headers = {name.lower(): value for name, value in ask.headers.items()}
        content = b"" if answer is None else written(answer).encode()
        return ApiReply(ask.status or endpoint.status, content, headers)

    def close(self) -> None:
        self._parts.store.close()


def whoami() -> str:
    """Return the user according to the operating system; an environment variable could name any user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may know the number only
        return f"uid {os.getuid()}"
