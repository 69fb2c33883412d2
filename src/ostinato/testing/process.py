"""One process of a simulation: dispatcher, worker and sweeper, with their own event loop.

The simulation runs its duties step by step. A process whose duties no longer run behaves as after SIGSTOP, or as after
a crash: its runs stand still in a loop that does not run.
"""

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeVar
from uuid import UUID

from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.model import Chance
from ostinato.engine.auditor import Auditor
from ostinato.engine.dispatcher import Dispatcher
from ostinato.engine.sweeper import Sweeper
from ostinato.engine.worker import Identity, Worker
from ostinato.store.history import Keep
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.telemetry.reports import Telemetry
from ostinato.testing.lapse import InlineExecutor, TimeLapse

T = TypeVar("T")


class ProcessState(StrEnum):
    WORKING = "working"
    PAUSED = "paused"
    CRASHED = "crashed"
    STOPPED = "stopped"


class ProcessParts(Protocol):
    """The parts from which a process is made."""

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> ManualClock: ...
    @property
    def chance(self) -> Chance: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def telemetry(self) -> Telemetry: ...


class Process:
    """A worker with its dispatcher and its sweeper."""

    def __init__(self, name: str, parts: ProcessParts, registry: Registry, app: str = "") -> None:
        self.name = name
        self.state = ProcessState.WORKING
        self.loop = TimeLapse(parts.clock)
        self.wake_at: list[datetime] = []  # the times of the next work, as of the last turn
        settings, store, clock = parts.settings, parts.store, parts.clock
        identity = Identity(app, "simulated", settings.queues, settings.concurrency, settings.lease)

        async def make_worker() -> Worker:  # a worker belongs to the loop that made it
            return Worker(store, registry, clock, parts.chance, parts.telemetry, identity, InlineExecutor())

        self.worker = self.loop.run(make_worker())
        self.dispatcher = Dispatcher(store, clock, parts.chance, parts.telemetry)
        keep = Keep(settings.keep_executions, settings.keep_days)
        self.sweeper = Sweeper(store, clock, parts.chance, parts.telemetry, settings.lease, keep)
        self.auditor = Auditor(store, clock, parts.chance, parts.telemetry)

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state}>"

    @property
    def id(self) -> UUID | None:
        """The worker's id in the database."""
        return self.worker.lease.worker_id

    @property
    def working(self) -> bool:
        return self.state is ProcessState.WORKING

    @property
    def running(self) -> int:
        """The number of executions that run now."""
        return self.worker.running

    @property
    def until_timer(self) -> timedelta | None:
        """The time until the next timer of a run."""
        return self.loop.until_timer

    def do(self, duty: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a duty, and let the runs go on until they wait."""
        return self.loop.run(duty())

    def start(self) -> None:
        self.dispatcher.start()
        self.do(self.worker.join)

    def renew(self) -> None:
        """Renew the lease; if it is lost, stop all runs and join again with a new id."""
        self.worker.lease.renew(self.running)
        if self.worker.lease.closed:
            self.worker.abandon()
            self.do(self.worker.join)

    def turn(self) -> int:
        """Run each duty once, and return how many executions moved."""
        fired = self.dispatcher.step()
        claimed = self.do(self.worker.step)
        self.do(self.worker.watch)
        settled = self.do(self.worker.flush)
        self.wake_at = [step.wake_at for step in (fired, claimed) if step.wake_at is not None]
        return fired.moved + claimed.moved + settled

    def wake(self) -> None:
        """Work again after a pause. Runs whose timer has passed go on before the lease is checked."""
        self.state = ProcessState.WORKING
        self.do(_nothing)

    def stop(self) -> None:
        """Stop in order: unfinished runs are released."""
        self.worker.interrupt()
        self.do(self.worker.leave)
        self.do(self.worker.close_resources)
        self.state = ProcessState.STOPPED

    def close(self) -> None:
        """Discard all runs without telling their code; only a crash leaves resources open."""
        if self.state in (ProcessState.WORKING, ProcessState.PAUSED):
            self.do(self.worker.close_resources)
        self.worker.close()
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.close()


async def _nothing() -> None:
    pass
