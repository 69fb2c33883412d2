"""Client without a server: the API in this process, with the database of the settings."""

import os
import pwd
from collections.abc import MutableMapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from ostinato.cli.client import ApiReply, Request
from ostinato.cli.quick import answer_quickly
from ostinato.config import Settings
from ostinato.core.access import Admission, Caller, Role
from ostinato.service import Service
from ostinato.wiring import open_parts, our_version

Message = MutableMapping[str, Any]


class InProcessClient:
    """A client that answers simple requests itself, and calls the application in this process for the others."""

    is_foreign = False

    def __init__(self, database: str | None) -> None:
        self._parts = open_parts(Settings.load({"database_url": database}))
        self._me = Caller(whoami(), Role.ADMIN)
        parts = self._parts
        self._api = Service(parts.store, parts.clock, parts.chance, permits=parts.settings.permits)
        self._application: Application | None = None

    def now(self) -> datetime:
        return self._parts.clock.now()

    def send(self, request: Request) -> ApiReply:
        return answer_quickly(self._api, self._me.name, request) or self.application.send(request)

    @property
    def application(self) -> "Application":
        """The HTTP application, created at its first use."""
        if self._application is None:
            self._application = Application(self._api, self._parts.settings, self._me)
        return self._application

    def close(self) -> None:
        if self._application is not None:
            self._application.close()
        self._parts.store.close()


class Application:
    """The API as an ASGI application, called in this process."""

    def __init__(self, api: Service, settings: Settings, me: Caller) -> None:
        from asyncio import Runner

        from ostinato.rest.app import create_app

        self._app = create_app(api, settings, recognise=lambda _: Admission(me), version=our_version())
        self._loop = Runner()

    def send(self, request: Request) -> ApiReply:
        return self._loop.run(self._answered(request))

    def close(self) -> None:
        self._loop.close()

    async def _answered(self, request: Request) -> ApiReply:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request.content, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        try:
            await self._app(_scope(request), receive, send)
        except Exception:  # a bug: the application has answered 500 and logged it; it raises it again for servers
            if not sent:
                raise
        start, *parts = sent
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
        return ApiReply(start["status"], b"".join(part.get("body", b"") for part in parts), headers)


def _scope(request: Request) -> Message:
    """Return the request as an ASGI scope."""
    path, _, query = request.target.partition("?")
    headers = {"host": "ostinato", "content-type": "application/json", **request.headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": None,
        "server": ("ostinato", 80),
    }


def whoami() -> str:
    """Return the user according to the operating system; an environment variable could name any user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may know the number only
        return f"uid {os.getuid()}"
