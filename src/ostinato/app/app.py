"""The class Ostinato, the Python API.

Importing it is quick: a program that only registers tasks, or enqueues now and then, should not wait for an engine.
Methods that need the database, the service or the engine import them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, Unpack, cast, overload
from uuid import UUID

from ostinato.app.tasks import AppTask, run_once, without_schedule
from ostinato.config import Settings
from ostinato.config.extras import need_server
from ostinato.core.errors import Invalid
from ostinato.core.model import Definition
from ostinato.core.payload import encode
from ostinato.core.policy import Isolation
from ostinato.feature import features_of
from ostinato.handle import Handle
from ostinato.options import (
    ISOLATION,
    JOB_OPTIONS,
    LIMITS,
    POLICY_OPTIONS,
    SCHEDULED_RETRIES,
    TASK_OPTIONS,
    JobOptions,
    TaskOptions,
    check_names,
    define,
    has_schedule,
    isolation_from,
    schedule_from,
)
from ostinato.task import Call, Context, Registry, Resource, Task
from ostinato.task.around import W
from ostinato.telemetry.formatting import configure_logging
from ostinato.telemetry.reports import Hook, Hooks

if TYPE_CHECKING:
    import asyncio
    from socket import socket

    from ostinato.access.mounting import HostLogin
    from ostinato.app.aio import Aio
    from ostinato.app.listening import Listening
    from ostinato.app.mounted import Mounted
    from ostinato.engine.engine import Engine
    from ostinato.features.workflows.builder import AppWorkflow, GraphBuilder
    from ostinato.service import Service
    from ostinato.service.declarations import Applied
    from ostinato.service.executions import ExecutionService
    from ostinato.service.jobs import JobService
    from ostinato.wiring import Parts

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
H = TypeVar("H", bound=Hook)

NO_QUEUE: Final = ("-",)  # no queue can have this name: a worker that serves it claims nothing
HOOKS_DRAIN: Final = 2.0  # seconds for the last calls of hooks
LOGGER: Final = logging.getLogger("ostinato")


class Ostinato:
    """Tasks, declared jobs and a database. The database is opened on first use; import creates nothing in it."""

    def __init__(
        self,
        name: str = "",
        *,
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        timezone: str | None = None,
        **settings: Any,
    ) -> None:
        """`name` scopes keys. Settings (`database_url=`, `concurrency=` …) win over environment and files."""
        self.name = name
        self._chosen: dict[str, Any] = {**settings, "timezone": timezone}
        self.settings = Settings.load(self._chosen)
        self._features = features_of(self.settings.features)
        self.registry = Registry(self._features.runnable, name)
        self.hooks = Hooks()
        self._declared: dict[str, Definition] = {}
        self._workflows: dict[str, AppWorkflow] = {}
        self._parts: Parts | None = None
        self._scheduler: Service | None = None
        self._opening = threading.Lock()
        self._is_mounted = False
        self._engine_here: tuple[Engine, asyncio.Task[None]] | None = None
        for task_name, function in (tasks or {}).items():
            self.register(task_name, function)

    def configure(self, **settings: Any) -> None:
        """Change settings before the first use; they win over those of the constructor. None changes nothing."""
        if self._parts is not None:
            raise Invalid(
                "The database is already open. Call configure before the first use of the app. If your module uses it "
                'while it is imported, put these lines below `if __name__ == "__main__":`.'
            )
        if settings.get("timezone") is not None and self._declared:
            raise Invalid(
                "Jobs are already declared in the time zone of this app. Call configure before you declare them."
            )
        self._chosen |= {name: value for name, value in settings.items() if value is not None}
        self.settings = Settings.load(self._chosen)
        if (features := features_of(self.settings.features)) is not self._features:
            self._features = features
            self.registry.replace_built_in(features.runnable)

    # -- tasks

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> AppTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> AppTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Make a function a task, named `name=` or like the function. `every=` or `cron=` also declares a job."""
        check_names(options, TASK_OPTIONS)
        name = options.pop("name", "")
        if function is not None:
            return self._add(function, name, options)
        return Decorator(lambda given: self._add(given, name, options))

    def register(self, name: str, function: Callable[..., Any]) -> AppTask[..., Any]:
        """Make a function a task with this name, at run time."""
        return self._add(function, name, {})

    def _add(self, function: Callable[..., Any], name: str, given: TaskOptions) -> AppTask[..., Any]:
        options = cast(JobOptions, {option: value for option, value in given.items() if option != ISOLATION})
        task = AppTask(self, function, name, options, isolation_from(given))
        self._check_limits(task)
        self.registry.add(task)
        if has_schedule(options):
            self.schedule(task.bind(), **options)
        elif strange := next((option for option in options if option not in POLICY_OPTIONS), None):
            raise Invalid(f"{strange}= needs a schedule. Add every= or cron=.")
        return task

    def _check_limits(self, task: AppTask[..., Any]) -> None:
        by_default = Isolation.ASYNC if task.is_async else self.settings.isolation
        if (task.isolation or by_default) is not Isolation.PROCESS:
            for limit in task.options.keys() & set(LIMITS):
                raise Invalid(f'{limit}= needs a separate process. Add isolation="process".')

    @overload
    def around(self, function: W, /) -> W: ...
    @overload
    def around(self, /, *, built_in: bool = False) -> Callable[[W], W]: ...
    def around(self, function: Any = None, /, *, built_in: bool = False) -> Any:
        """Run a generator around each run of this app's tasks, where the task runs: `def` around any task, `async def`
        around `async def` tasks only. With `built_in`, around built-in tasks, too. The first one is the outermost."""

        def decorate(given: Any) -> Any:
            self.registry.arounds.add(given, built_in=built_in)
            return given

        return decorate if function is None else decorate(function)

    @overload
    def resource(self, function: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, function: Callable[[], Iterator[T]], /) -> Resource[T]: ...
    def resource(self, function: Any, /) -> Any:
        """Make a generator a resource: `ctx.use(it)` opens it at the first use in a process, and the process closes it
        when its last run has ended."""
        return Resource(function)

    # -- workflows

    @overload
    def workflow(self, function: Callable[[GraphBuilder], object], /) -> AppWorkflow: ...
    @overload
    def workflow(
        self, /, *, on: str | Sequence[str] = (), **options: Unpack[JobOptions]
    ) -> Callable[[Callable[[GraphBuilder], object]], AppWorkflow]: ...
    def workflow(self, function: Any = None, /, *, on: Any = (), **options: Unpack[JobOptions]) -> Any:
        """Declare a workflow, named `name=` or like the function that builds it. `on=` names events that start it;
        `every=` or `cron=` also declares a job that starts it."""
        from ostinato.features.workflows.builder import declare

        events = (on,) if isinstance(on, str) else tuple(on)

        def decorate(given: Callable[[GraphBuilder], object]) -> AppWorkflow:
            return declare(self, self._workflows, given, events, options)

        return decorate if function is None else decorate(function)

    def dispatch_event(self, kind: str, data: Mapping[str, Any] | None = None) -> list[Handle]:
        """Start each active workflow that has a trigger for this kind of event; `data` is the payload."""
        from ostinato.features.workflows.service import WorkflowService

        started = self.scheduler.part(WorkflowService).dispatch_event(kind, None if data is None else dict(data))
        return [self.handle(view.id) for view in started]

    def apply_workflows(self) -> None:
        """Create or update in the database the workflows that this app declares."""
        for each in self._workflows.values():
            each.apply()

    def call(self, task: str, /, **args: Any) -> Call:
        """Bind arguments to a task by its name; the task may be known only to other processes."""
        text = encode(args)
        if self.registry.is_built_in(task):
            self._features.check(task, args, self.settings.permits)
        elif task in self.registry.names():
            known = self.registry.get(task)
            known.arguments(args)  # Invalid if they do not fit
            known.check_types(args)
        return Call(task, text)

    # -- jobs

    def schedule(self, call: Call | AppTask[..., Any], **options: Unpack[JobOptions]) -> None:
        """Declare a job, which is created or updated when this app starts to work."""
        check_names(options, JOB_OPTIONS)
        bound = call.bind() if isinstance(call, Task) else call
        key = options.get("key", bound.task)
        if key in self._declared:
            raise Invalid(f"Two jobs of this app have the key {key!r}. Give one of them another key=.")
        schedule = schedule_from(options, self.settings.timezone)
        opened = self._options_of(bound.task).get("run_args", ())
        keyed = cast(JobOptions, {"run_args": opened, **options, "key": key})
        definition = define(bound.task, bound.args, schedule, keyed, self.name, SCHEDULED_RETRIES)
        self._declared[key] = definition

    def source(self, definition: Mapping[str, Any] | str | Path) -> None:
        """Declare a source, or the sources of a file; they are created or updated when this app starts to work."""
        from ostinato.features.sources.declared import declared_sources

        for job in declared_sources(definition, self.settings, self.name):
            if job.key in self._declared:
                raise Invalid(f"Two sources of this app have the name {job.name!r}. Give one of them another name.")
            self._declared[job.key or ""] = job

    def enqueue(
        self, calls: Iterable[Call], *, connection: object | None = None, allow_unknown: bool = False
    ) -> list[Handle]:
        """Enqueue many calls, all or none. `allow_unknown` permits tasks that no known worker has."""
        calls = list(calls)
        if len({call.task for call in calls}) != 1:
            now = self.now()
            once = [run_once(call, now, self._options_of(call.task), self.name) for call in calls]
            return self.put(once, connection, allow_unknown)
        first = run_once(calls[0], self.now(), self._options_of(calls[0].task), self.name)
        ids = self.scheduler.jobs.create_copies(
            first, [call.args for call in calls], connection=connection, allow_unknown=allow_unknown
        )
        return [self.handle(job_id) for job_id in ids]

    def put(
        self, definitions: Sequence[Definition], connection: object | None = None, allow_unknown: bool = False
    ) -> list[Handle]:
        """Create jobs from their definitions."""
        ids = self.scheduler.jobs.create(definitions, connection=connection, allow_unknown=allow_unknown)
        return [self.handle(job_id) for job_id in ids]

    def handle(self, job_id: UUID) -> Handle:
        """Return a handle for a job that was enqueued elsewhere."""
        return Handle(job_id, lambda: self.scheduler)

    def apply_declarations(self, *, prune: bool = False) -> Applied:
        """Create or update in the database the jobs and workflows that this app declares."""
        self.apply_workflows()
        return self.scheduler.declarations.apply(list(self._declared.values()), prune=prune)

    @property
    def declared(self) -> tuple[Definition, ...]:
        return tuple(self._declared.values())

    def _options_of(self, task: str) -> JobOptions:
        known = self.registry.get(task) if task in self.registry.names() else None
        return without_schedule(known.options) if isinstance(known, AppTask) else {}

    # -- the service

    @property
    def scheduler(self) -> Service:
        """The service; opens the database on first use."""
        if self._scheduler is None:
            from ostinato.service import Service
            from ostinato.wiring import trace_enqueues

            parts = self.parts
            scheduler = Service(
                parts.store, parts.clock, parts.chance, self.name,
                self.registry.names, self.registry.own, self.settings.permits,
            )  # fmt: skip
            trace_enqueues(self.settings, scheduler)
            self._scheduler = scheduler
        return self._scheduler

    @property
    def parts(self) -> Parts:
        return self.open()

    def open(self, *, upgrade: bool = False) -> Parts:
        """Open the database now; `upgrade` migrates its schema first."""
        from ostinato.wiring import open_parts

        with self._opening:
            parts = self._parts = self._parts or open_parts(self.settings, upgrade=upgrade)
            return parts

    @property
    def is_open(self) -> bool:
        return self._parts is not None

    @property
    def opened(self) -> Parts | None:
        """The parts of this process, if the database is open."""
        return self._parts

    @property
    def jobs(self) -> JobService:
        return self.scheduler.jobs

    @property
    def executions(self) -> ExecutionService:
        return self.scheduler.executions

    @property
    def aio(self) -> Aio:
        """Every call that asks or steers, for async code: `await app.aio.jobs.pause("report")`."""
        from ostinato.app.aio import Aio

        return Aio(self)

    async def aenqueue(self, calls: Iterable[Call], *, allow_unknown: bool = False) -> list[Handle]:
        """`enqueue` for async code."""
        calls = list(calls)
        return await self.in_thread(lambda: self.enqueue(calls, allow_unknown=allow_unknown))

    async def adispatch_event(self, kind: str, data: Mapping[str, Any] | None = None) -> list[Handle]:
        """`dispatch_event` for async code."""
        return await self.in_thread(lambda: self.dispatch_event(kind, data))

    def now(self) -> datetime:
        return self.parts.clock.now()

    async def in_thread(self, call: Callable[[], T]) -> T:
        from ostinato.engine.threads import few_threads

        return await few_threads(call)

    def on(self, kind: str) -> Callable[[H], H]:
        """Call a function on an event in this process: `job:start`, `job:complete`, `job:failed` …"""
        return self.hooks.on(kind)

    # -- running

    def engine(self, *, worker: bool = True) -> Engine:
        """Build the engine of this process. Call it inside a running loop."""
        from ostinato.wiring import build_engine

        parts = self.parts
        if not worker or parts.messenger is not None:
            parts = replace(parts, settings=replace(parts.settings, queues=NO_QUEUE, concurrency=1))
        return build_engine(parts, self.registry, self.hooks, self.name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Ostinato]:
        """Work inside a program with its own event loop: `async with app.running(): …`."""
        import asyncio

        from ostinato.isolation.preparing import refuse_to_start

        refuse_to_start("app.running()")
        await self.in_thread(self.apply_declarations)
        engine = self.engine()
        if self._is_mounted:
            engine.measure()  # its /metrics may be asked
        working = asyncio.create_task(engine.run())
        self._engine_here = engine, working
        try:
            yield self
        finally:
            self._engine_here = None
            engine.stop()
            await working

    @property
    def engine_here(self) -> Engine | None:
        """The engine that `running` holds in this process, while it works."""
        here = self._engine_here
        return None if here is None or here[1].done() else here[0]

    def asgi(self, caller: HostLogin | None = None) -> Mounted:
        """Return REST API and dashboard as an ASGI application, to mount under any prefix. It starts no engine:
        hold `running()` in the lifespan of your application.

        `caller` takes the log-in of your application: from the ASGI scope it returns `(name, role)`, or None for a
        visitor who may not enter; it may be async. Without it, the tokens and keys of the settings are required. With
        neither, only requests from this host are answered.
        """
        need_server("app.asgi()")
        from ostinato.app.mounted import Mounted

        self._is_mounted = True
        return Mounted(self, caller)

    def run(
        self,
        *,
        migrate: bool = False,
        worker: bool = True,
        listening: Listening | None = None,
        until_idle: bool = False,
    ) -> None:
        """Apply the declarations, print the start lines, and work in this process until SIGTERM or SIGINT.

        A second signal stops at once. `migrate` upgrades the PostgreSQL schema first. Without `worker`, jobs come due
        here and run elsewhere. `listening` also serves the HTTP API. `until_idle` stops when nothing may start here and
        nothing is due. Logging is configured unless the program has configured it.
        """
        from ostinato.app.running import run_to_the_end
        from ostinato.engine.logbook import captured
        from ostinato.isolation.preparing import refuse_to_start

        refuse_to_start("app.run()")
        configure_logging(self.settings)
        for warning in self.settings.warnings:
            LOGGER.warning(warning)
        try:
            with (
                nullcontext() if listening is None else listening.bind(self.settings) as bound,
                captured() if self.settings.capture_output else nullcontext(),
            ):
                run_to_the_end(self._run(migrate, worker, bound, listening, until_idle))
        finally:
            self.close()
        LOGGER.info("Stopped")

    def _begin(self, migrate: bool, worker: bool, bound: socket | None, listening: Listening | None) -> None:
        """Open the database, apply the declarations, and print the banner."""
        from ostinato.app.starting import announce

        missing = self.open(upgrade=migrate).store.missing_features()
        if missing:
            LOGGER.warning(
                "This process lacks features that the database has: features=%s advice=Name them in OSTINATO_FEATURES.",
                ",".join(missing),
            )
        announce(self, self.apply_declarations(), worker, bound, listening)

    async def _run(
        self, migrate: bool, worker: bool, bound: socket | None, listening: Listening | None, until_idle: bool
    ) -> None:
        from ostinato.app.probing import probing
        from ostinato.app.running import Signals
        from ostinato.app.starting import begun, http_on

        with Signals() as signals, probing(self.settings, has_http=listening is not None) as watch:
            async with http_on(bound, listening) as http:
                if not await begun(lambda: self._begin(migrate, worker, bound, listening), signals, http):
                    return
                engine = self.engine(worker=worker)
                if until_idle:
                    engine.stop_when_idle()
                watch(self, engine)
                if http is None:
                    signals.pass_to(engine.stop)
                    await engine.run()
                else:
                    await http.run_with(self, engine, signals)
                self.hooks.drain(HOOKS_DRAIN)

    def close(self) -> None:
        """Close the database, without waiting for a thread that is still opening it."""
        parts, self._parts, self._scheduler = self._parts, None, None
        if parts is not None:
            parts.store.close()


class Decorator:
    """Decorator `@app.task(every="30m")`, which keeps the types of its function."""

    def __init__(self, add: Callable[[Callable[..., Any]], AppTask[..., Any]]) -> None:
        self._add = add

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> AppTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AppTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._add(function)
