"""Access of a command to the REST API, over HTTP or inside this process.

A verb is written once, as requests. With `--server` they go to a server; without, the same requests go to the same
application in this process, over the database of the settings, in the name of whoever is at the terminal. So both
ways answer alike.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from ostinato.core.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    OstinatoError,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
)

PREFIX: Final = "/api/v1"
ERRORS: Final[Mapping[int, type[OstinatoError]]] = {
    400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: Invalid,
    422: Invalid, 429: TooManyRequests, 503: StoreUnavailable,
}  # fmt: skip

FOREIGN: Final = "The answer is not one of Ostinato's: this address is not that of an Ostinato server."

Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the API; `path` is below its prefix, with each part quoted."""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    body: object | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Path and query as they stand in a URL; what is None was not asked for."""
        asked = [(name, text) for name, value in self.query.items() for text in _texts(value)]
        return PREFIX + self.path + (f"?{urlencode(asked)}" if asked else "")

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class ApiReply:
    """The reply to a request."""

    status: int
    content: bytes
    headers: Mapping[str, str]


class Door(Protocol):
    """A way to the front desk."""

    is_foreign: bool  # its answers may be those of any server

    def send(self, request: Request) -> ApiReply: ...

    def close(self) -> None: ...


def path(*parts: str) -> str:
    """A path from its parts, each of which may hold anything."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def read(reply: ApiReply) -> Any:
    """The value of an answer, or its refusal as an error of ours."""
    if reply.status < 300:
        return _decoded(reply) if reply.content else None
    error = ERRORS.get(reply.status, OstinatoError)
    raise error(_sentence(reply))


def _texts(value: object) -> list[str]:
    match value:
        case None:
            return []
        case bool():
            return ["true" if value else "false"]
        case list() | tuple():
            return [text for each in value for text in _texts(each)]
        case _:
            return [str(value)]


def _decoded(reply: ApiReply) -> Any:
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        raise OstinatoError(FOREIGN) from None


def _sentence(reply: ApiReply) -> str:
    """Return the error of the API as a sentence, with the fields."""
    try:
        answer = json.loads(reply.content)
    except (ValueError, RecursionError):
        return f"The server answered {reply.status}, and not in the words of Ostinato."
    if not isinstance(answer, dict) or not isinstance(answer.get("detail"), str):
        return f"The server answered {reply.status}, and not in the words of Ostinato."
    return str(answer["detail"])
