"""The start of a working process, which waits while its database is unavailable or still starting."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from ostinato.app.signals import Signals
from ostinato.core.errors import StoreUnavailable
from ostinato.engine.retrying import StoreWait
from ostinato.engine.threads import StoreThreads

if TYPE_CHECKING:
    from socket import socket

    from ostinato.app.app import Ostinato
    from ostinato.app.listening import Listening
    from ostinato.engine.engine import Engine
    from ostinato.rest.streams import Streams
    from ostinato.telemetry.process_metrics import EngineView

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BESIDE_AN_ENGINE: Final = 4  # API threads in the process of an engine: they compete with it for Python
RETRY_AFTER: Final = 5  # seconds, for clients
REASON: Final = "The database is unavailable; this process waits for it."


class Http(Protocol):
    """The HTTP server of a working process, here or in a process of its own."""

    def start(self) -> object:
        """Start to serve, even if the database is not available yet."""

    async def run_with(self, app: "Ostinato", engine: "Engine", signals: Signals) -> None:
        """Work and serve until a signal stops both."""

    async def close(self) -> None:
        """Stop, if it has started."""


async def begun(start: Callable[[], object], signals: Signals, http: "Http | None") -> bool:
    """Call `start` as soon as the database is available; return False if a signal asked for a stop first.

    `start` runs on a daemon thread: a hanging connection cannot delay the stop of the process.
    """
    asked = asyncio.Event()
    signals.pass_to(asked.set)
    beginning = asyncio.create_task(_until_available(start, http))
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait({beginning, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if beginning.done():
        beginning.result()  # raises the error of a failed start
        return True
    beginning.cancel()
    return False


@asynccontextmanager
async def http_on(bound: "socket | None", listening: "Listening | None") -> "AsyncIterator[Http | None]":
    """Make a server for a socket, here or in a process of its own, without starting it; stop it at the end."""
    http = None if bound is None or listening is None else _http(bound, listening)
    try:
        yield http
    finally:
        if http is not None:
            await http.close()


def _http(bound: "socket", listening: "Listening") -> Http:
    if listening.apart is None:
        return InProcessHttp(bound, insecure=listening.insecure)
    from ostinato.app.http_process import HttpProcess

    return HttpProcess(bound, listening.apart, insecure=listening.insecure)


async def _until_available(start: Callable[[], object], http: "Http | None") -> None:
    threads, waiting = StoreThreads(1), StoreWait()
    try:
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(threads, start)
            except StoreUnavailable as error:
                if http is not None:
                    http.start()
                await asyncio.sleep(waiting.away(error))
            else:
                waiting.over()
                return
    finally:
        threads.shutdown()


class InProcessHttp:
    """A server and its ASGI application; until it has the API, it answers 503, and 200 at `/healthz`."""

    def __init__(self, bound: "socket", threads: int = BESIDE_AN_ENGINE, *, insecure: bool = False) -> None:
        from ostinato.app.serving import HttpServer  # with uvicorn, which only a server needs

        self.server = HttpServer(self, bound, threads)
        self.application: Application | None = None
        self._streams: Streams | None = None
        self._insecure = insecure

    def start(self) -> "asyncio.Task[None]":
        return self.server.start()

    async def close(self) -> None:
        await self.server.close()

    def open(self, app: "Ostinato", engine: "EngineView") -> None:
        """Start to answer with the API of an app."""
        from ostinato.wiring import build_api

        api = build_api(app.parts, app.scheduler, engine, insecure=self._insecure)
        self.application, self._streams = api, api.state.streams

    def stop(self) -> None:
        """Accept no new requests, end event streams, and finish open answers."""
        if self._streams is not None:
            self._streams.close()
        self.server.should_exit = True

    async def run_with(self, app: "Ostinato", engine: "Engine", signals: Signals) -> None:
        from ostinato.app.serving import run_beside

        self.open(app, engine)

        def stop() -> None:
            self.server.force_exit = self.server.should_exit  # at the second signal
            self.stop()
            engine.stop()

        signals.pass_to(stop)
        await run_beside(engine, self.server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.application is not None:
            await self.application(scope, receive, send)
            return
        await answer_waiting(scope["path"], send)


async def answer_waiting(path: str, send: Send, reason: str = REASON) -> None:
    """Answer before the API is there."""
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
    """Return status and body before the API is there; /healthz and /readyz as in rest/health.py."""
    match path:
        case "/healthz":
            return 200, {"status": "ok"}
        case "/readyz":
            return 503, {"ready": False, "reasons": [reason]}
        case _:
            return 503, {"detail": reason}
