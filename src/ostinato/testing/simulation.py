"""The simulation: time jumps from one wake-up to the next, and every process does its duties there.

Nothing can happen between two wake-ups, so periodic duties run only where they matter: each wake-up renews the leases,
as if they had been renewed all the time, and sweeps run while a worker is silent.
"""

import asyncio
import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from ostinato.app import Ostinato
from ostinato.chance import RandomChance
from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Event, Execution, Live, Skip
from ostinato.core.read_models import WorkerRow
from ostinato.core.times import HOUR, parse_duration
from ostinato.feature import features_of
from ostinato.handle import Handle
from ostinato.service import ExecutionView, Service
from ostinato.service.jobs import JobService
from ostinato.store.database import open_database
from ostinato.store.store import Store
from ostinato.task import Context, Registry, Task
from ostinato.telemetry.reports import Hooks, Telemetry
from ostinato.testing.process import Process, ProcessState
from ostinato.wiring import Parts

# -- Tasks of a simulation: they all run on the loop, so that the timing of threads has no influence


class _Script:
    """Replacements and durations that a test has set for tasks."""

    def __init__(self) -> None:
        self.takes: dict[str, timedelta] = {}
        self.instead: dict[str, Task[..., Any]] = {}


class _SimulatedTask(Task[..., Any]):
    """A task that runs in the test's own thread and takes as long as the script says."""

    def __init__(
        self, real: Task[..., Any], script: _Script, wrapped: Callable[[Task[..., Any]], Task[..., Any]]
    ) -> None:
        super().__init__(real.function, real.name)
        self.is_async = True
        self._script = script
        self._real = real
        self._wrapped = wrapped

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        return self._current.arguments(args)

    async def call(self, context: Context, arguments: dict[str, Any]) -> Any:
        task = self._wrapped(self._current)
        result = task.call(context, arguments)
        if task.is_async:
            result = await result
        if (takes := self._script.takes.get(self.name)) is not None:
            await asyncio.sleep(takes.total_seconds())
        return result

    @property
    def _current(self) -> Task[..., Any]:
        return self._script.instead.get(self.name, self._real)


def simulated(registry: Registry, script: _Script) -> Registry:
    """Return the same tasks, made for a simulation."""
    tasks = Registry()
    for name in registry.names():
        tasks.add(_SimulatedTask(registry.get(name), script, registry.wrapped))
    return tasks


def named(function: Callable[..., Any], name: str) -> Task[..., Any]:
    """Make a function a task with this name."""
    return Task(function.function, name) if isinstance(function, Task) else Task(_plain(function), name)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a signature to a function without one, such as a mock."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return lambda **arguments: function(**arguments)
    return function


# -- The simulation: time jumps from one wake-up to the next, and every process does its duties there

MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)  # the default start of a simulation
MOST_ROUNDS: Final = 10_000  # at one instant: more means that work makes new work without end
TIDY_EVERY: Final = HOUR
ALL: Final = 1_000_000

Duration = str | float | timedelta


@dataclass(frozen=True, slots=True)
class _Stage:
    """The parts that all processes of a simulation share."""

    settings: Settings
    store: Store
    clock: ManualClock
    chance: RandomChance
    telemetry: Telemetry


@contextmanager
def simulate(app: Ostinato, *, start: datetime = MONDAY, workers: int = 1, seed: int = 0) -> Iterator["Simulation"]:
    """Put an app on a manual clock and a temporary database; its own database is not used.

    The app's declared jobs are created, and `workers` workers (`w1`, `w2` …) start.
    """
    with tempfile.TemporaryDirectory(prefix="ostinato-") as folder:
        url = f"sqlite:///{Path(folder) / 'simulation.db'}"
        features = features_of(app.settings.features)
        store = Store(open_database(url, durable=False, features=features), chance := RandomChance(seed))
        store.require_current()
        settings = replace(app.settings, database_url=url)
        telemetry = Telemetry(settings, app.hooks)
        stage = _Stage(settings, store, ManualClock(start), chance, telemetry)
        with _replaced_parts(app, Parts(settings, store, stage.clock, chance)):
            simulation = Simulation(app, stage)
            try:
                app.apply_declarations()
                for number in range(1, workers + 1):
                    simulation.worker(f"w{number}")
                yield simulation
            finally:
                simulation.close()


@contextmanager
def _replaced_parts(app: Ostinato, parts: Parts) -> Iterator[None]:
    """Let an app use other parts for a while."""
    own = app._parts, app._scheduler
    app._parts, app._scheduler = parts, None
    try:
        yield
    finally:
        app._parts, app._scheduler = own
        parts.store.close()


def fixture(app: Ostinato, **options: Any) -> Any:
    """Make a pytest fixture in one line: `sim = ostinato.testing.fixture(app)`."""
    import pytest  # imported late: it is not a dependency of ours

    def sim() -> Iterator[Simulation]:
        with simulate(app, **options) as simulation:
            yield simulation

    return pytest.fixture(sim)


class Simulation:
    """An app whose time passes only on command."""

    def __init__(self, app: Ostinato, stage: _Stage) -> None:
        self.app = app
        self.clock = stage.clock
        self._stage = stage
        self._script = _Script()
        self._processes: dict[str, Process] = {}
        self._ended: list[Process] = []
        self._swept_at = self._tidied_at = 0.0

    # -- time

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, by: Duration) -> None:
        """Let time pass ("36h", seconds, a timedelta). Jobs that become due fire and run at their due time."""
        left = parse_duration(by)
        self.run_pending()
        while left > timedelta(0):
            step = min(left, self._until_next_work())
            self.clock.advance(step)
            left -= step
            self._work_off()
        self._tell_hooks()

    def advance_to(self, at: datetime) -> None:
        """Let time pass until an instant."""
        self.advance(max(at - self.now, timedelta(0)))

    def run_pending(self) -> None:
        """Fire and run all jobs that are due at this instant; no time passes."""
        self._work_off()
        self._tell_hooks()

    def set_clock(self, at: datetime) -> None:
        """Set the wall clock, as an operator or NTP would: no time passes, but all processes read another time."""
        self.clock.set(at)

    # -- workers

    def worker(self, name: str = "w1") -> Process:
        """Return the worker with this name; start one if there is none."""
        if name not in self._processes:
            process = Process(name, self._stage, simulated(self.app.registry, self._script), self.app.name)
            process.start()
            self._processes[name] = process
        return self._processes[name]

    @property
    def workers(self) -> list[Process]:
        """Processes that have neither crashed nor stopped."""
        return list(self._processes.values())

    def crash(self, worker: Process | str) -> None:
        """Stop a worker as `kill -9` does: its runs never end, and its name is free again."""
        self._leave(worker, ProcessState.CRASHED)

    def pause(self, worker: Process | str) -> None:
        """Pause a worker, as SIGSTOP or a sleeping laptop does: it does nothing, and does not notice."""
        self._of(worker).state = ProcessState.PAUSED

    def wake(self, worker: Process | str) -> None:
        """Let a paused worker continue, as SIGCONT does, perhaps too late."""
        self._of(worker).wake()

    def stop(self, worker: Process | str) -> None:
        """Stop a worker, as SIGTERM does: its runs are released; no retry is used."""
        self._of(worker).stop()
        self._leave(worker, ProcessState.STOPPED)

    # -- tasks

    def takes(self, task: str, duration: Duration) -> None:
        """Make each run of a task take this long from now on, after its own work."""
        self.app.registry.get(task)
        self._script.takes[task] = parse_duration(duration)

    def replace(self, task: str, function: Callable[..., Any]) -> None:
        """Run this function instead of a task from now on: a fake, or one that fails."""
        self.app.registry.get(task)
        self._script.instead[task] = named(function, task)

    # -- results

    @property
    def jobs(self) -> JobService:
        """All commands and queries of jobs, like `app.jobs`."""
        return self.app.jobs

    @property
    def scheduler(self) -> Service:
        return self.app.scheduler

    def executions(self, job: str | UUID | Handle | None = None, *, task: str | None = None) -> list[ExecutionView]:
        """List executions, oldest first, waiting and running ones included: all, of one job, or of one task.

        A text may name a job, a task, or both. With the name of a task, its enqueued runs are included.
        """
        named = job if isinstance(job, str) and job in self.app.registry.names() else None
        job_id = self._job_id(job, needed=named is None)
        only = None if named is not None else job_id
        history = self._stage.store.history
        ended = history.page(ALL) if only is None else history.of_job(only, ALL)
        rows: list[Execution | Live] = [*ended, *history.live(ALL, job_id=only)]
        views = sorted(map(ExecutionView.of, rows), key=lambda view: view.id)
        if named is not None:
            views = [view for view in views if view.task == named or view.job_id == job_id]
        return [view for view in views if task is None or view.task == task]

    def skips(self, job: str | UUID | Handle) -> list[Skip]:
        """List the skips of a job, oldest first."""
        return self._stage.store.history.skips(self._known_id(job), ALL)[::-1]

    def events(self, job: str | UUID | Handle | None = None) -> list[Event]:
        """List events, oldest first."""
        return self._stage.store.history.events(ALL, self._job_id(job))[::-1]

    def worker_rows(self) -> list[WorkerRow]:
        """List every worker that ever joined, as the database stores it."""
        return self.scheduler.workers(since=timedelta(days=36_500))

    def problems(self) -> list[str]:
        """List the flaws in the database; each flaw is a bug in Ostinato."""
        return self.scheduler.problems()

    def close(self) -> None:
        for process in [*self._processes.values(), *self._ended]:
            process.close()

    # -- internal

    def _work_off(self) -> None:
        """Let every working process do all its work of this instant."""
        self._renew()
        self._sweep()
        for _ in range(MOST_ROUNDS):
            if not sum(process.turn() for process in self._working()):
                return
        raise Conflict(f"After {MOST_ROUNDS} rounds at {self.now} there is still work at the same instant.")

    def _working(self) -> list[Process]:
        return [process for process in self._processes.values() if process.working]

    def _renew(self) -> None:
        for process in self._working():
            process.renew()

    def _sweep(self) -> None:
        at, working = self.clock.monotonic(), self._working()
        if at - self._swept_at >= self._sweep_every.total_seconds():
            self._swept_at = at
            for process in working:
                process.sweeper.step()
        if at - self._tidied_at >= TIDY_EVERY.total_seconds() and working:
            self._tidied_at = at
            working[0].sweeper.tidy()

    def _until_next_work(self) -> timedelta:
        """Return the time until the next work of a process."""
        working = self._working()
        times = [at - self.now for process in working for at in process.wake_at]
        times += [process.until_timer for process in working if process.until_timer is not None]
        if self._has_silent_worker():
            times.append(self._sweep_every)
        return min((time for time in times if time > timedelta(0)), default=timedelta.max)

    def _has_silent_worker(self) -> bool:
        """Return True if a worker with an open row no longer works."""
        ids = {process.id for process in self._working()}
        return any(lease.worker_id not in ids for lease in self._stage.store.workers.leases())

    @property
    def _sweep_every(self) -> timedelta:
        return min(self._stage.settings.sweep, self._stage.settings.lease / 4)

    def _of(self, worker: Process | str) -> Process:
        process = self._processes.get(worker if isinstance(worker, str) else worker.name)
        if process is None:
            raise NotFound(f"No worker with the name {worker} is working.")
        return process

    def _leave(self, worker: Process | str, state: ProcessState) -> None:
        process = self._of(worker)
        process.state = state
        self._ended.append(self._processes.pop(process.name))

    def _job_id(self, job: str | UUID | Handle | None, *, needed: bool = True) -> UUID | None:
        """Find the id of a job. If there is none: None without `needed`, else NotFound."""
        try:
            return None if job is None else self._known_id(job)
        except NotFound:
            if needed:
                raise
            return None

    def _known_id(self, job: str | UUID | Handle) -> UUID:
        return job.id if isinstance(job, Handle) else self.jobs.resolve(job)

    def _tell_hooks(self) -> None:
        hooks: Hooks = self._stage.telemetry.hooks
        hooks.drain(10)
