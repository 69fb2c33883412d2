"""REST API and dashboard inside another ASGI application, under any prefix: `app.asgi()`.

It starts nothing, since servers do not run the lifespan of a mounted application. The host's lifespan holds
`async with app.running()`; without it `/readyz` says that no engine runs here. The database is opened by the first
request, and the API is built once for each event loop.
"""

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ostinato.access.mounting import (
    HOST,
    ONLY_HERE,
    HostLogin,
    admitted,
    ask_host,
    inner_scope,
    nobody,
    require_this_host,
)
from ostinato.app.listening import answer_waiting
from ostinato.core.errors import OstinatoError, StoreUnavailable
from ostinato.rest.failures import refusal
from ostinato.telemetry.measures import RunTimes, StoreTimes
from ostinato.telemetry.process_metrics import EndedTotals, MetricsSnapshot, ProcessMetrics
from ostinato.telemetry.reports import Counts
from ostinato.wiring import Parts, build_api

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato

LOOK_EVERY: Final = 0.5  # seconds between two looks whether the server stops
NO_ENGINE: Final = (
    "No engine runs in this process: hold `async with app.running()` in the lifespan of your application."
)
CANNOT_START: Final = "The database cannot be used; the log of this process says why."

log = logging.getLogger("ostinato")


class Mounted:
    """An ASGI application that answers with the API of an app."""

    def __init__(self, app: "Ostinato", caller: HostLogin | None) -> None:
        self._app, self._caller = app, caller
        self._engine = _EngineHere(app)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._building = asyncio.Lock()
        self._api: ASGIApp | None = None
        self._built_for: Parts | None = None
        self._watching: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000})
            case "lifespan":
                await _live(receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = inner_scope(scope)
        found = None if self._caller is None else await ask_host(self._caller, scope)
        try:
            if found is not None:
                inner[HOST] = admitted(found, inner)
            elif self._caller is None and not self._app.settings.auth_configured:
                require_this_host(inner)
        except OstinatoError as error:
            await refusal(error)(inner, receive, send)
            return
        try:
            api = await self._ready_api()
        except StoreUnavailable:
            await answer_waiting(inner["path"], send)
        except OstinatoError as error:  # a client is not told about settings
            log.error("The mounted API cannot start: %s", error)
            await answer_waiting(inner["path"], send, CANNOT_START)
        else:
            await api(inner, receive, send)

    async def _ready_api(self) -> ASGIApp:
        """Build the API at the first request, and again if another event loop or database is in use."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._building, self._api = loop, asyncio.Lock(), None
        async with self._building:
            if self._api is None or self._built_for is not self._app.opened:
                api = await asyncio.to_thread(self._build)
                self._api, self._built_for = api, self._app.opened
                self._watching = asyncio.create_task(_end_streams(api.state.streams))
            return self._api

    def _build(self) -> Any:
        settings, here = self._app.settings, self._caller is None
        if here and not settings.auth_configured:
            log.warning(ONLY_HERE)
        recognise = None if here or settings.auth_configured else nobody
        return build_api(self._app.parts, self._app.scheduler, self._engine, recognise=recognise)


class _EngineHere:
    """The engine that `app.running()` holds in this process, if there is one."""

    def __init__(self, app: "Ostinato") -> None:
        self._app, self.pid = app, os.getpid()
        self._idle = ProcessMetrics(Counts(), RunTimes(), StoreTimes(), EndedTotals())

    def troubles(self) -> list[str]:
        engine = self._app.engine_here
        return [NO_ENGINE] if engine is None else engine.troubles()

    def measure(self) -> "_EngineHere":
        return self

    @property
    def executions(self) -> EndedTotals:
        return self._measured.executions

    def measurement(self) -> MetricsSnapshot:
        return self._measured.measurement()

    @property
    def _measured(self) -> ProcessMetrics:
        engine = self._app.engine_here
        return self._idle if engine is None else engine.measure()


async def _end_streams(streams: Any) -> None:
    """End the event streams when the server is asked to stop: uvicorn waits for its open answers before the lifespan
    ends, and a stream would be open for an hour."""
    while not streams.closed:
        await asyncio.sleep(LOOK_EVERY)
        if _is_stopping():
            streams.close()


def _is_stopping() -> bool:
    """Return True if the uvicorn server that handles the signals of this process was asked to stop."""
    servers = (getattr(signal.getsignal(each), "__self__", None) for each in (signal.SIGTERM, signal.SIGINT))
    return any(getattr(server, "should_exit", False) is True for server in servers)


async def _live(receive: Receive, send: Send) -> None:
    """Answer the lifespan of a server that serves this application alone."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
