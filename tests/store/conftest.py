"""A store that tests drive by hand: on both databases, with the time as a value."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Barrier
from uuid import UUID

import pytest

from ostinato.chance import RandomChance
from ostinato.core import lifecycle
from ostinato.core.model import Change, Claimed, Finished, Live, Status
from ostinato.core.outcome import Completed, Error, Failed, Outcome
from ostinato.core.read_models import JobFilter
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.jobs import JobRow
from ostinato.store.search import JobKey
from ostinato.store.settling import Settled
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker
from tests.build import NOW, SECOND, a_definition

LEASE = 30 * SECOND
DONE = Completed('"done"')
FAILURE = Failed(Error("ValueError", "no"))


class World:
    """A store, its time, and the people and workers that use it."""

    def __init__(self, url: str, store: Store, chance: RandomChance) -> None:
        self.url, self.store, self.chance, self.now = url, store, chance, NOW
        self._others: list[Store] = []

    @property
    def on_postgres(self) -> bool:
        return self.url.startswith("postgres")

    def another(self) -> Store:
        """Return the same database as another process sees it."""
        self._others.append(Store(open_database(self.url, durable=False), RandomChance()))
        return self._others[-1]

    def close(self) -> None:
        for store in (self.store, *self._others):
            store.close()

    def clock(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> datetime:
        self.now += by
        return self.now

    def new(self, **given: object) -> Change:
        """Make a new job; every hour, unless another schedule is given."""
        return lifecycle.create(self.chance.id(self.now), a_definition(**given), self.now, self.chance)

    def add(self, count: int = 1, **given: object) -> list[UUID]:
        return self.store.jobs.add([self.new(**given) for _ in range(count)])

    def add_one(self, **given: object) -> UUID:
        return self.add(**given)[0]

    def enqueue(self, count: int = 1, **given: object) -> list[UUID]:
        """Enqueue run-once jobs that may start now."""
        return self.add(count, at=self.now, **{"max_retries": 0} | given)

    def jobs(self, limit: int = 1000, after: JobKey | None = None, **chosen: object) -> list[JobRow]:
        """Return a page of jobs, the newest first."""
        found = self.store.search.jobs(JobFilter(**chosen), "created_at", True, limit, 0, after)
        return list(found.rows)

    def counts(self) -> dict[Status, int]:
        return self.store.search.count_by_status()

    def job(self, job_id: UUID):
        return self.store.jobs.get([job_id])[job_id].job

    def facts(self, job_id: UUID):
        return self.job(job_id).facts

    def lives(self, job_id: UUID) -> tuple[Live, ...]:
        return self.store.jobs.get([job_id])[job_id].lives

    def status(self, job_id: UUID) -> Status | None:
        return self.store.jobs.status_of(job_id)

    def history(self, job_id: UUID):
        return self.store.history.of_job(job_id, 1000)

    def due_times(self, job_id: UUID):
        return sorted(ended.due_at for ended in self.history(job_id))

    def skips(self, job_id: UUID):
        return self.store.history.skips(job_id, 1000)

    def events(self, kind: str, job_id: UUID | None = None):
        return [event for event in self.store.history.events(10_000, job_id) if event.kind == kind]

    def command(self, job_id: UUID, name: str, *args: object, store: Store | None = None) -> Change:
        """Send a command as an operator does."""
        rule = getattr(lifecycle, name)
        jobs = (store or self.store).jobs
        if name == "retry":
            return jobs.change(job_id, lambda j, ls, last: rule(j, ls, last, self.now, self.chance), True)
        return jobs.change(job_id, lambda j, ls, _: rule(j, ls, *args, self.now, self.chance))

    def fire(self, ahead: timedelta = timedelta(0), limit: int = 500) -> list[Change]:
        return self.store.queue.fire_due(self.clock, ahead, limit)

    def worker(self, *tasks: str, queues: Sequence[str] = (), store: Store | None = None) -> UUID:
        worker_id = self.chance.id(self.now)
        who = NewWorker(worker_id, "", "here", 1, "0", tasks or ("work",), tuple(queues), 5)
        (store or self.store).workers.join(who, self.now, LEASE)
        return worker_id

    def claim(
        self,
        worker: UUID,
        *tasks: str,
        limit: int = 100,
        queues: Sequence[str] = (),
        store: Store | None = None,
    ) -> list[Claimed]:
        queue = (store or self.store).queue
        return list(queue.claim(worker, tasks or ("work",), queues, self.clock, limit).claimed)

    def settle(self, claimed: Sequence[Claimed], outcome: Outcome = DONE) -> Settled:
        return self.store.queue.settle([Finished(each.live, outcome, self.now) for each in claimed])

    def run_all(self, worker: UUID, outcome: Outcome = DONE) -> list[Claimed]:
        """Fire, claim, run and settle once."""
        self.fire()
        self.store.queue.time_has_come(self.now, 1000)
        claimed = self.claim(worker)
        self.settle(claimed, outcome)
        return claimed

    def sql(self, text: str, /, **params: object) -> list[tuple]:
        statement = self.store.database.dialect.statement(text)
        with self.store.database.write() as tx:
            return tx.rows(statement, **params)

    def check(self) -> None:
        """Assert that the counters are consistent and the view agrees with the rule."""
        assert self.store.audit.problems() == []
        for row in self.jobs():
            assert lifecycle.status(row.job, row.lives) == self.status(row.job.id)


def together(*calls):
    """Call all of these at once, each in a thread; return their results, or raise the first error."""
    barrier = Barrier(len(calls))

    def run(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(run, call) for call in calls]]


def edited(definition, **changes):
    return replace(definition, **changes)


def opened(url: str) -> World:
    database = open_database(url, durable=False)
    migrate.upgrade(database)
    chance = RandomChance(1)
    return World(url, Store(database, chance), chance)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """On both databases."""
    world = opened(database_url)
    yield world
    world.close()


@pytest.fixture
def store(world: World) -> Store:
    return world.store


@pytest.fixture
def postgres_world(postgres_url: str) -> Iterator[World]:
    """A world where two transactions can really write at once."""
    world = opened(postgres_url)
    yield world
    world.close()
