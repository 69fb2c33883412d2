"""HTTP in the process of an app, beside its engine."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import uvicorn

from ostinato.core.errors import InvalidSetting
from ostinato.engine.engine import Engine

if TYPE_CHECKING:
    from fastapi import FastAPI

ANSWERS_HAVE: Final = 5  # seconds to be finished once we stop; then streams are cut
BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class Listening:
    """Where HTTP listens."""

    host: str = "127.0.0.1"
    port: int = 8060

    def bind(self) -> socket.socket:
        """Take the address, or say why not."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise InvalidSetting(
                f"HTTP cannot listen on {self.host}:{self.port}: {why}. Choose another --host or --port."
            ) from None


def url_of(bound: socket.socket) -> str:
    """The address that a socket has."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """Serves an app on a socket that is bound already. Signals are not its business: whoever runs it hears them."""

    def __init__(self, app: "FastAPI", bound: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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
        self._bound = bound

    async def run_until_stopped(self) -> None:
        await self.serve([self._bound])

    def stop(self) -> None:
        """Accept no more, and finish what was begun; asked again, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_beside(engine: Engine, server: HttpServer) -> None:
    """Serve and work until both have stopped; neither goes on without the other."""
    serving = asyncio.create_task(server.run_until_stopped())
    working = asyncio.create_task(engine.run())
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    if not server.should_exit:  # nobody asked: one of them has failed
        server.stop()
        if not working.done():
            engine.stop()
    await asyncio.gather(serving, working)
