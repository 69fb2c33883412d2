"""HTTP in the process of an app, beside its engine."""

import asyncio
import os
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from anyio.to_thread import current_default_thread_limiter

from ostinato.access.credentials import require_safe_binding
from ostinato.app.connection import Connection, HttpLimits
from ostinato.config import Settings
from ostinato.core.errors import InvalidSetting
from ostinato.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp

ANSWERS_HAVE: Final = 5  # seconds to be finished once we stop; then streams are cut
BACKLOG: Final = 2048
BESIDE_AN_ENGINE: Final = 4  # API threads in the process of an engine: they compete with it for Python


@dataclass(frozen=True, slots=True)
class Listening:
    """Where HTTP listens."""

    host: str = "127.0.0.1"
    port: int = 8060
    insecure: bool = False  # without auth, and not on loopback alone: somebody has said that this is meant

    def bind(self, settings: Settings) -> socket.socket:
        """Take the address, or say why not."""
        require_safe_binding(self.host, settings, insecure=self.insecure)
        if not 0 <= self.port <= 65535:
            raise self._refused("a port is a number from 0 to 65535")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            bound = socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            known = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
            raise self._refused(known) from None
        # asyncio does this only for sockets that are said to be TCP's. Head and body of an answer are sent apart: on a
        # connection that is kept, the body would wait 40 ms for the client's delayed word that it has the head.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound

    def _refused(self, why: str) -> InvalidSetting:
        return InvalidSetting(
            f"HTTP cannot listen on {self.host}:{self.port}: {why}. Choose another --host or --port."
        )


def url_of(bound: socket.socket) -> str:
    """The address that a socket has."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """Server of an app on a socket that is bound already. Its caller hears the signals."""

    def __init__(
        self,
        app: "ASGIApp",
        bound: socket.socket,
        threads: int = BESIDE_AN_ENGINE,
        limits: HttpLimits | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Connection, limits or HttpLimits.here(), OrderedDict())),
                lifespan="off",
                ws="none",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=ANSWERS_HAVE,
            )
        )
        self._bound, self._threads = bound, threads
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Serve from now on, on the running loop; the task ends when the server has stopped."""
        if self._serving is None:
            current_default_thread_limiter().total_tokens = self._threads
            self._serving = asyncio.create_task(self.serve([self._bound]))
        return self._serving

    async def run_until_stopped(self) -> None:
        await self.start()

    async def close(self) -> None:
        """Stop, if it has started."""
        if self._serving is not None and not self._serving.done():
            self.stop()
            await self._serving

    def stop(self) -> None:
        """Accept no more, and finish what was begun; asked again, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_beside(engine: Engine, server: HttpServer) -> None:
    """Serve and work until both have stopped; neither goes on without the other."""
    serving = server.start()
    working = asyncio.create_task(engine.run())
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    if not server.should_exit:  # nobody asked: one of them has failed
        server.stop()
        if not working.done():
            engine.stop()
    await asyncio.gather(serving, working)
