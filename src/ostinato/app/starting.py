"""The start of a working process, which waits while its database is unavailable, and its start lines."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final, Protocol

from ostinato.app.listening import Scope, Send, answer_waiting
from ostinato.app.running import Signals
from ostinato.config import EngineKind, LogFormat, Settings
from ostinato.config.extras import our_version
from ostinato.core.errors import NotFound, StoreUnavailable
from ostinato.core.model import Status
from ostinato.core.payload import LogMessage
from ostinato.core.schedule import Cron
from ostinato.core.times import wall_at, zone
from ostinato.engine.duties import StoreWait
from ostinato.engine.threads import StoreThreads
from ostinato.service import JobView
from ostinato.service.declarations import Applied
from ostinato.service.doctor import Ungranted, few

if TYPE_CHECKING:
    from socket import socket

    from ostinato.app.app import Ostinato
    from ostinato.app.listening import Listening
    from ostinato.engine.engine import Engine
    from ostinato.rest.streams import Streams
    from ostinato.telemetry.process_metrics import EngineView


Receive = Callable[[], Awaitable[Scope]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

BESIDE_AN_ENGINE: Final = 4  # API threads in the process of an engine: they compete with it for Python


class _Http(Protocol):
    """The HTTP server of a working process, here or in a process of its own."""

    def start(self) -> object:
        """Start to serve, even if the database is not available yet."""

    async def run_with(self, app: "Ostinato", engine: "Engine", signals: Signals) -> None:
        """Work and serve until a signal stops both."""

    async def close(self) -> None:
        """Stop, if it has started."""


async def begun(start: Callable[[], object], signals: Signals, http: "_Http | None") -> bool:
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
async def http_on(bound: "socket | None", listening: "Listening | None") -> "AsyncIterator[_Http | None]":
    """Make a server for a socket, here or in a process of its own, without starting it; stop it at the end."""
    http = None if bound is None or listening is None else _http(bound, listening)
    try:
        yield http
    finally:
        if http is not None:
            await http.close()


def _http(bound: "socket", listening: "Listening") -> _Http:
    if listening.apart is None:
        return InProcessHttp(bound, insecure=listening.insecure)
    from ostinato.app.http_process import HttpProcess

    return HttpProcess(bound, listening.apart, insecure=listening.insecure)


async def _until_available(start: Callable[[], object], http: "_Http | None") -> None:
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


# -- Start lines of a process: its database, its jobs and their next times

LOGGER: Final = logging.getLogger("ostinato")
SHOWN_SETTINGS: Final = ("timezone", "poll_interval", "lease", "concurrency")
WIDEST: Final = 40  # of a column; longer text shifts the next column


def announce(
    app: "Ostinato",
    applied: Applied,
    worker: bool,
    bound: "socket | None" = None,
    listening: "Listening | None" = None,
) -> None:
    """Print the start lines to stdout (not if logs are JSON), and log one line."""
    missing = app.scheduler.ungranted()
    if app.settings.log_format is LogFormat.TEXT:
        lines = [*banner(app, applied, worker, bound, listening), *_secrets(missing)]
        _write("\n".join(lines) + "\n\n")
    shown = app.settings.shown()
    fields: dict[str, object] = {name: shown[name] for name in SHOWN_SETTINGS}
    if bound is not None:
        fields["http"] = _url(bound)
    fields |= {"created": len(applied.created), "changed": len(applied.changed)}
    if applied.declined:
        fields["declined"] = ", ".join(applied.declined)
    if missing:
        fields["secrets_not_granted"] = ", ".join(few([each.reference for each in missing]))
    LOGGER.info(LogMessage("Starting scheduler", {"database": app.parts.store.database.name} | fields))


def banner(
    app: "Ostinato",
    applied: Applied,
    worker: bool,
    bound: "socket | None" = None,
    listening: "Listening | None" = None,
) -> Iterator[str]:
    """List the start lines for people."""
    yield f"Ostinato {our_version()}" + (f", app {app.name}" if app.name else "")
    yield f"  database  {app.parts.store.database.name}"
    yield f"  timezone  {app.settings.timezone}"
    yield f"  worker    {_worker(app, worker)}"
    if bound is not None:
        yield f"  http      {_url(bound)}  (docs at /docs)"
        yield f"  processes {_process(app.settings, listening)}"
        yield f"  auth      {_auth(app.settings, bound)}"
    yield f"  jobs      {_summary(applied)}" + ("" if app.name else " (your app: --app module:app)")
    views = list(_declared_jobs(app))
    keys = [str(view.key) for view in views]
    schedules = [view.when for view in views]
    for key, schedule, view in zip(keys, schedules, views, strict=True):
        news = "created" if key in applied.created else "changed" if key in applied.changed else ""
        first, second = min(max(map(len, keys)), WIDEST), min(max(map(len, schedules)), WIDEST)
        yield f"    {key:<{first}}  {schedule:<{second}}  {_next(view, app.settings.timezone):<31} {news}".rstrip()
    for key in applied.gone:
        yield f"  {key} is no longer declared, but its job still exists. Delete it, or declare it again."
    for key in applied.declined:
        yield f"  {key} was deleted and stays deleted. To bring it back: ostinato job redeclare {quote(key)}"
    for key in applied.blocked:
        yield f"  {key} runs after a deleted job. It is created when that job exists again."


def _write(text: str) -> None:
    """Write to stdout. A full device, a closed pipe or a missing stdout must not stop the process."""
    if sys.stdout is not None:
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


def _declared_jobs(app: "Ostinato") -> Iterator[JobView]:
    """List the declared jobs that exist; an operator may delete one at any time."""
    for definition in app.declared:
        with suppress(NotFound):
            yield app.jobs.get(definition.key or "")


def _secrets(missing: Sequence[Ungranted]) -> Iterator[str]:
    lines = [f"{each.reference} ({each.user}) is not granted on this host. {each.advice}" for each in missing]
    yield from (f"  {line}" for line in few(lines))


def _url(bound: "socket") -> str:
    from ostinato.app.listening import url_of

    return url_of(bound)


def _process(settings: Settings, listening: "Listening | None") -> str:
    if listening is not None and listening.apart is not None:
        return "two: this one runs jobs, another one answers HTTP"
    if settings.engine is not EngineKind.LOCAL:
        return f"one: it also serves HTTP (engine {settings.engine})"
    if not settings.http_process:
        return "one: it also serves HTTP (OSTINATO_HTTP_PROCESS=off)"
    return "one: it also serves HTTP (started by app.run)"


def _auth(settings: Settings, bound: "socket") -> str:
    from ostinato.access.requests import is_loopback

    if settings.auth_secret or settings.auth_public_key:
        return "tokens and API keys"
    if settings.auth_required:
        return "API keys"
    return (
        "none: only this host has access"
        if is_loopback(bound.getsockname()[0])
        else "NONE: other hosts have full access"
    )


def _worker(app: "Ostinato", worker: bool) -> str:
    if app.settings.engine is not EngineKind.LOCAL:
        return f"none here: this process queues due jobs, {app.settings.engine.upper()} workers run them"
    if not worker:
        return "none here: this process queues due jobs, other workers run them"
    queues, many = app.settings.queues, app.settings.concurrency
    served = "all queues" if not queues else f"queue{'s' * (len(queues) > 1)} {', '.join(queues)}"
    return f"{served}, {many} at once"


def _summary(applied: Applied) -> str:
    counts = {"created": applied.created, "changed": applied.changed, "unchanged": applied.unchanged}
    shown = [f"{len(keys)} {word}" for word, keys in counts.items() if keys]
    return ", ".join(shown) or "none declared"


def _next(view: JobView, timezone: str) -> str:
    if view.next_run_at is None:
        return str(view.status)
    schedule = view.definition.schedule
    at = written(view.next_run_at, schedule.timezone if isinstance(schedule, Cron) else timezone)
    return at if view.status in (Status.SCHEDULED, Status.QUEUED) else f"{at}, {view.status}"


def written(at: datetime, timezone: str) -> str:
    """Write an instant in a time zone."""
    return f"{wall_at(at, zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
