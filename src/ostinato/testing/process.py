"""One process of a simulation: dispatcher, worker and sweeper, with an event loop of their own.

It does its duties only when it is told to. Not told any more, it is as good as stopped by SIGSTOP; forgotten, it has
crashed: what it ran stands still in a loop that nobody runs.
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
from ostinato.testing.lapse import AtOnce, TimeLapse

T = TypeVar("T")


class ProcessState(StrEnum):
    WORKING = "working"
    PAUSED = "paused"
    CRASHED = "crashed"
    STOPPED = "stopped"


class Making(Protocol):
    """The parts of a process."""

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

    def __init__(self, name: str, parts: Making, registry: Registry, app: str = "") -> None:
        self.name = name
        self.state = ProcessState.WORKING
        self.loop = TimeLapse(parts.clock)
        self.wake_at: list[datetime] = []  # as of the last turn: when there is something to do
        settings, store, clock = parts.settings, parts.store, parts.clock
        identity = Identity(app, "simulated", settings.queues, settings.concurrency, settings.lease)

        async def hire() -> Worker:  # a worker belongs to the loop it is made in
            return Worker(store, registry, clock, parts.chance, parts.telemetry, identity, AtOnce())

        self.worker = self.loop.run(hire())
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
        """The number of executions it runs now."""
        return self.worker.running

    @property
    def until_timer(self) -> timedelta | None:
        """The time until the next timer of its runs."""
        return self.loop.until_timer

    def do(self, duty: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do a duty, and let what runs here go on until it waits."""
        return self.loop.run(duty())

    def start(self) -> None:
        self.dispatcher.start()
        self.do(self.worker.join)

    def renew(self) -> None:
        """Keep the lease; when it is gone, stop what runs and come back under a new id."""
        self.worker.lease.renew(self.running)
        if self.worker.lease.closed:
            self.worker.abandon()
            self.do(self.worker.join)

    def turn(self) -> int:
        """Each duty once; how much was moved."""
        fired = self.dispatcher.step()
        claimed = self.do(self.worker.step)
        self.do(self.worker.watch)
        settled = self.do(self.worker.flush)
        self.wake_at = [step.wake_at for step in (fired, claimed) if step.wake_at is not None]
        return fired.moved + claimed.moved + settled

    def wake(self) -> None:
        """After a pause: what had its time meanwhile goes on first, before anybody tells it that it is late."""
        self.state = ProcessState.WORKING
        self.do(_nothing)

    def stop(self) -> None:
        """In order: what runs is handed back."""
        self.worker.interrupt()
        self.do(self.worker.leave)
        self.state = ProcessState.STOPPED

    def close(self) -> None:
        """Throw away what still runs: its code is not told."""
        self.worker.close()
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.close()


async def _nothing() -> None:
    pass
