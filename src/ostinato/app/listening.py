"""The HTTP server: its address, where its process finds the app, and its answers before the API is there."""

import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ostinato.config import Settings
from ostinato.config.extras import need_server
from ostinato.core.errors import InvalidSetting

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]

BACKLOG: Final = 2048
RETRY_AFTER: Final = 5  # seconds, for clients
REASON: Final = "The database is unavailable; this process waits for it."


@dataclass(frozen=True, slots=True)
class AppReference:
    """The app of a command: `module:attribute` (None: only built-in tasks), and the settings of its flags."""

    where: str | None
    chosen: Mapping[str, object]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "AppReference":
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Listening:
    """Address and process of the HTTP server."""

    host: str = "127.0.0.1"
    port: int = 8060
    insecure: bool = False  # listen beyond this host although auth is off
    apart: "AppReference | None" = None  # serve in a separate process, which loads this app

    def bind(self, settings: Settings) -> socket.socket:
        """Bind the address, or raise InvalidSetting."""
        need_server("The HTTP server")
        from ostinato.access.credentials import require_safe_binding

        require_safe_binding(self.host, settings, insecure=self.insecure)
        if not 0 <= self.port <= 65535:
            raise self._refused("a port is a number from 0 to 65535")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            bound = socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            known = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
            raise self._refused(known) from None
        # asyncio sets this only for sockets with the protocol TCP. Without it, on a kept-alive connection, the body of
        # an answer would wait 40 ms for the client's delayed acknowledgement of the head.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    def _refused(self, why: str) -> InvalidSetting:
        return InvalidSetting(f"HTTP cannot listen on {self.host}:{self.port}: {why}. Choose another --host or --port.")


def url_of(bound: socket.socket) -> str:
    """Return the address of a socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# -- Answers before the API is there


async def answer_waiting(path: str, send: Send, reason: str = REASON) -> None:
    """Answer that the process waits for its database."""
    code, answer = _waiting_answer(path, reason)
    body = json.dumps(answer).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    if code == 503:
        headers["retry-after"] = str(RETRY_AFTER)
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": code, "headers": sent})
    await send({"type": "http.response.body", "body": body})


def _waiting_answer(path: str, reason: str) -> tuple[int, dict[str, object]]:
    """Return status and body; /healthz and /readyz as in rest/monitoring.py."""
    match path:
        case "/healthz":
            return 200, {"status": "ok"}
        case "/readyz":
            return 503, {"ready": False, "reasons": [reason]}
        case _:
            return 503, {"detail": reason}
