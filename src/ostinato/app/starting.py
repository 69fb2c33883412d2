"""The start of a process that works. Its database may be unavailable, or still starting: the process waits for it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ostinato.app.signals import Signals
from ostinato.core.errors import StoreUnavailable
from ostinato.engine.threads import StoreThreads
from ostinato.engine.untiring import Waiting

if TYPE_CHECKING:
    from socket import socket

    from ostinato.app.app import Ostinato

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

RETRY_AFTER: Final = 5  # seconds, for clients
REASON: Final = "The database is unavailable; this process waits for it."


def begin(app: "Ostinato", migrate: bool, worker: bool, bound: "socket | None") -> None:
    """Open the database, apply the declarations, and print the banner."""
    from ostinato.app.banner import announce

    app.open(upgrade=migrate)
    announce(app, app.apply_declarations(), worker, bound)


async def begun(start: Callable[[], None], signals: Signals, doorway: "Doorway | None") -> bool:
    """Start to work, as soon as the database is available. False: a signal asked for a stop meanwhile.

    `start` runs on a daemon thread: a connection that hangs does not keep a process that is asked to stop.
    """
    asked = asyncio.Event()
    signals.pass_to(asked.set)
    beginning = asyncio.create_task(_until_available(start, doorway))
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait({beginning, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if beginning.done():
        beginning.result()  # what made it fail is raised here
        return True
    beginning.cancel()
    return False


@asynccontextmanager
async def doorway_on(bound: "socket | None") -> "AsyncIterator[Doorway | None]":
    """Make the doorway of a socket, with a server that is not started yet; at the end it is stopped."""
    doorway = None if bound is None else Doorway(bound)
    try:
        yield doorway
    finally:
        if doorway is not None:
            await doorway.server.close()


async def _until_available(start: Callable[[], None], doorway: "Doorway | None") -> None:
    threads, waiting = StoreThreads(1), Waiting()
    try:
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(threads, start)
            except StoreUnavailable as error:
                if doorway is not None:
                    doorway.server.start()
                await asyncio.sleep(waiting.away(error))
            else:
                waiting.over()
                return
    finally:
        threads.shutdown()


class Doorway:
    """A server and its ASGI application: answers 503, and that the process is alive, until it gets the API."""

    def __init__(self, bound: "socket") -> None:
        from ostinato.app.serving import HttpServer  # with uvicorn, which only a server needs

        self.server = HttpServer(self, bound)
        self.application: Application | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.application is not None:
            await self.application(scope, receive, send)
            return
        code, answer = _waiting_answer(scope["path"])
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


def _waiting_answer(path: str) -> tuple[int, dict[str, object]]:
    """The status and the body for a request that comes too early; those of /healthz and /readyz as in api/health.py."""
    match path:
        case "/healthz":
            return 200, {"status": "ok"}
        case "/readyz":
            return 503, {"ready": False, "reasons": [REASON]}
        case _:
            return 503, {"detail": REASON}
