"""Access of a command to the REST API, over HTTP or inside this process; exit codes.

A command is written once, as requests. With `--server` the requests go to a server. Without it, the same application
answers them in this process, with the database of the settings and in the name of the user at the terminal. So both
ways give the same answers.
"""

import errno
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
    StoreError,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
)

PREFIX: Final = "/api/v1"
ERRORS: Final[Mapping[int, type[OstinatoError]]] = {
    400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: Invalid,
    422: Invalid, 429: TooManyRequests, 503: StoreUnavailable,
}  # fmt: skip

FOREIGN: Final = "The answer does not come from Ostinato: check the address of the server."

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
        """Path and query as part of a URL; parameters that are None are left out."""
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


class ApiClient(Protocol):
    """A way to send requests to the API."""

    is_foreign: bool  # the server may be another program than Ostinato

    def send(self, request: Request) -> ApiReply: ...

    def close(self) -> None: ...


def path(*parts: str) -> str:
    """Join the parts to a path; each part is quoted and may hold any character."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def read(reply: ApiReply) -> Any:
    """Return the value of a reply, or raise its error."""
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
    """Return the error of a reply as a sentence."""
    try:
        answer = json.loads(reply.content)
    except (ValueError, RecursionError):
        return f"The server answered {reply.status}, but not like Ostinato: check its address."
    if not isinstance(answer, dict) or not isinstance(answer.get("detail"), str):
        return f"The server answered {reply.status}, but not like Ostinato: check its address."
    return str(answer["detail"])


# -- Exit codes

DONE: Final = 0
FOUND_SOMETHING: Final = 1  # a check found a problem; also errors without a code of their own
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# System errors caused by a file name in the input.
OF_INPUT: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)
CODES: Final[tuple[tuple[type[OstinatoError], int], ...]] = (
    (Invalid, BAD_INPUT),
    (NotFound, 3),
    (Conflict, 4),
    (StoreError, 5),
)


def exit_code(error: OstinatoError) -> int:
    return next((code for kind, code in CODES if isinstance(error, kind)), FOUND_SOMETHING)
