"""The HTTP server in the process of an app, beside its engine."""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from anyio.to_thread import current_default_thread_limiter

from ostinato.app.connection import Connection, HttpLimits
from ostinato.app.listening import BACKLOG
from ostinato.app.starting import BESIDE_AN_ENGINE
from ostinato.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp

STOP_TIMEOUT: Final = 5  # seconds to finish open answers at a stop; then streams are cut
ACCEPTED_AT_ONCE: Final = 10  # in one turn of the loop; after four turns excess connections are closed


class HttpServer(uvicorn.Server):
    """Server of an app on a bound socket. Its caller handles the signals."""

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
                timeout_graceful_shutdown=STOP_TIMEOUT,
                backlog=ACCEPTED_AT_ONCE,
            )
        )
        self._bound, self._threads = bound, threads
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Start to serve on the running loop; the task ends when the server has stopped."""
        if self._serving is None:
            current_default_thread_limiter().total_tokens = self._threads
            self._serving = asyncio.create_task(self.serve([self._bound]))
        return self._serving

    async def close(self) -> None:
        """Stop, if it has started."""
        if self._serving is not None and not self._serving.done():
            self.stop()
            await self._serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept. `backlog` limits what asyncio accepts in one turn; the socket has a longer queue."""
        await super().startup(sockets)
        self._bound.listen(BACKLOG)

    def stop(self) -> None:
        """Accept no new requests and finish open answers; the second call stops at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_beside(engine: Engine, server: HttpServer) -> None:
    """Serve and work until both have stopped; if one stops, stop the other."""
    serving = server.start()
    working = asyncio.create_task(engine.run())
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    if not server.should_exit:  # not a requested stop: one of them has failed
        server.stop()
        if not working.done():
            engine.stop()
    await asyncio.gather(serving, working)
