"""Tests of this room may be `async def`: each gets an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core import lifecycle
from ostinato.core.model import Event, Job, Live
from ostinato.engine.dispatcher import Dispatcher
from ostinato.engine.sweeper import Sweeper
from ostinato.engine.threads import StoreThreads, Threads
from ostinato.engine.worker import Identity, Worker
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.history import Keep
from ostinato.store.store import Store
from ostinato.task import Registry, Task
from ostinato.telemetry.reports import Hooks, Telemetry
from tests.build import NOW, SECOND, FixedChance, a_definition

LEASE = 30 * SECOND


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Rig:
    """A store on a manual clock and its workers, all driven by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = ManualClock(NOW)
        self.chance = FixedChance()
        self.store = self.another_store()
        self.registry = Registry()
        self.hooks = Hooks()
        self.telemetry = Telemetry(Settings(), self.hooks)
        self.threads = StoreThreads(4)

    def another_store(self) -> Store:
        """Return the same database as another process sees it."""
        database = open_database(self.url, durable=False)
        migrate.upgrade(database)
        return Store(database, self.chance)

    # -- workers

    def task(self, function: Callable[..., Any]) -> None:
        self.registry.add(Task(function))

    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.store, self.clock, self.chance, self.telemetry)

    def sweeper(self, store: Store | None = None) -> Sweeper:
        return Sweeper(store or self.store, self.clock, self.chance, self.telemetry, LEASE, Keep())

    async def worker(
        self, *, concurrency: int = 5, queues: tuple[str, ...] = (), registry: Registry | None = None
    ) -> Worker:
        """Register a worker."""
        identity = Identity("tests", "1", queues, concurrency, LEASE)
        tasks = registry or self.registry
        worker = Worker(self.store, tasks, self.clock, self.chance, self.telemetry, identity, self.threads)
        await worker.join()
        return worker

    # -- jobs

    def add(self, count: int = 1, **given: object) -> list[UUID]:
        """Add jobs: every hour, unless another schedule is given."""
        now = self.clock.now()
        new = [lifecycle.create(self.chance.id(now), a_definition(**given), now, self.chance) for _ in range(count)]
        return self.store.jobs.add(new)

    def enqueue(self, count: int = 1, **given: object) -> list[UUID]:
        """Enqueue run-once jobs that may start now."""
        return self.add(count, at=self.clock.now(), **given)

    def job(self, job_id: UUID) -> Job:
        return self.store.jobs.get([job_id])[job_id].job

    def live(self, job_id: UUID | None = None) -> list[Live]:
        return self.store.history.live(1000, job_id=job_id)[::-1]

    def running(self) -> list[Live]:
        return [live for live in self.live() if live.worker_id is not None]

    def results(self, job_id: UUID) -> list[str]:
        """List the results of a job's executions, the oldest first."""
        return [ended.outcome.value for ended in self.store.history.of_job(job_id, 1000)[::-1]]

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.store.history.events(1000) if event.kind == kind]

    def sql(self, statement: str, **params: object) -> None:
        """Execute SQL that the store has no statement for; `{jobs}` stands for the table."""
        self.store.database.load(f"-- name: by_hand\n{statement}")
        with self.store.database.write() as tx:
            tx.run("by_hand", **params)


@pytest.fixture
def rig(database_url: str) -> Iterator[Rig]:
    rig = Rig(database_url)
    yield rig
    assert rig.store.audit.problems() == []
    rig.store.close()


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Threads for tasks."""
    threads = Threads(4, "runner-test")
    yield threads
    threads.stop()
