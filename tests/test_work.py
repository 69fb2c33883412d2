"""A guard against growing slower that counts work, not seconds: statements, rows, calls.

The ceilings are what it costs today, with some room. One that is reached is no catastrophe; it is a question:
was that worth it? (`make bench` says what it costs.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import psycopg
import pytest

from ostinato.core import lifecycle
from ostinato.core.model import Claimed, Finished
from ostinato.core.outcome import Completed
from ostinato.store import migrate
from ostinato.store.database import Tx, open_database
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker
from tests.build import HOUR, NOW, FixedChance, a_definition

FEW, MANY = 100, 400
DONE = Completed(None)


class Scene:
    """A store with one worker; added jobs are due now."""

    def __init__(self, url: str) -> None:
        self.url, self.chance, self.now = url, FixedChance(), NOW
        database = open_database(url, durable=False)
        migrate.upgrade(database)
        self.store = Store(database, self.chance)
        self.worker = self.chance.id(NOW)
        who = NewWorker(self.worker, "", "here", 1, "0", ("work",), (), MANY)
        self.store.workers.join(who, NOW, HOUR)

    def clock(self) -> datetime:
        return self.now

    def enqueue(self, count: int) -> None:
        self._add(count, at=self.now, made=self.now)

    def schedule(self, count: int) -> None:
        """Add jobs created an hour ago that become due now."""
        self.now += HOUR
        self._add(count, at=self.now, made=self.now - HOUR)

    def recur(self, count: int) -> None:
        """Add hourly jobs created an hour ago that become due now; earlier ones do not."""
        self.store.jobs.add(
            [
                lifecycle.create(self.chance.id(self.now), a_definition(every=HOUR), self.now - HOUR, self.chance)
                for _ in range(count)
            ]
        )

    def _add(self, count: int, at: datetime, made: datetime) -> None:
        definition = a_definition(at=at)
        new = [lifecycle.create(self.chance.id(made), definition, made, self.chance) for _ in range(count)]
        self.store.jobs.add(new)

    def fire(self, count: int) -> None:
        assert len(self.store.queue.fire_due(self.clock, timedelta(0), count)) == count

    def claim(self, count: int) -> Sequence[Claimed]:
        claimed = self.store.queue.claim(self.worker, ["work"], [], self.clock, count).claimed
        assert len(claimed) == count
        return claimed

    def settle(self, claimed: Sequence[Claimed]) -> None:
        settled = self.store.queue.settle([Finished(each.live, DONE, self.now) for each in claimed])
        assert len(settled.changes) == len(claimed)

    def succeed(self, claimed: Sequence[Claimed]) -> None:
        """Settle as a worker does, by the fast path: it has the definitions."""
        finished = [Finished(each.live, DONE, self.now, each.definition) for each in claimed]
        assert len(self.store.queue.settle(finished).plain) == len(claimed)

    def rows_written(self) -> int:
        """Return the counts of all statements so far."""
        if self.url.startswith("sqlite"):
            return self._value("SELECT total_changes()")
        self._value("SELECT pg_stat_force_next_flush()")  # on the connection that wrote them
        with psycopg.connect(self.url) as connection:
            row = connection.execute(
                "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'ostinato'"
            ).fetchone()
        return int(row[0])

    def _value(self, sql: str) -> int:
        with self.store.database.write() as tx:
            row = tx.row(self.store.database.dialect.statement(sql))
        return row[0]


@pytest.fixture
def scene(database_url: str) -> Iterator[Scene]:
    scene = Scene(database_url)
    yield scene
    scene.store.close()


@contextmanager
def counted_statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the names of all statements run meanwhile."""
    names: list[str] = []
    with monkeypatch.context() as patch:
        for method in ("rows", "run"):
            patch.setattr(Tx, method, _noting(getattr(Tx, method), names))
        yield names


def _noting(original: Callable, names: list[str]) -> Callable:
    def noting(tx: Tx, statement: object, *args: object, **kwargs: object) -> object:
        names.append(str(statement))
        return original(tx, statement, *args, **kwargs)

    return noting


def calls_of(call: Callable[[], object]) -> int:
    """Count the calls of functions in Python and C."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def run_through(scene: Scene, count: int) -> None:
    """Fire, claim and settle once, so that work done once per process is not counted."""
    scene.schedule(count)
    scene.fire(count)
    scene.settle(scene.claim(count))


# -- statements

MOST_STATEMENTS = {"fire": 6, "claim": 5, "settle": 5, "succeed": 4}


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_a_batch_takes_a_few_statements_however_large_it_is(scene, monkeypatch, count):
    run_through(scene, 1)
    scene.schedule(count)
    taken = {}
    with counted_statements(monkeypatch) as names:
        scene.fire(count)
        taken["fire"] = len(names)
        claimed = scene.claim(count)
        taken["claim"] = len(names) - taken["fire"]
        scene.settle(claimed)
        taken["settle"] = len(names) - taken["fire"] - taken["claim"]
        scene.enqueue(count)
        claimed, before = scene.claim(count), len(names)
        scene.succeed(claimed)
        taken["succeed"] = len(names) - before
    assert {verb: number for verb, number in taken.items() if number > MOST_STATEMENTS[verb]} == {}, names


def test_a_batch_of_many_takes_as_many_statements_as_one_of_few(scene, monkeypatch):
    run_through(scene, 1)
    taken = []
    for count in (FEW, MANY):
        scene.schedule(count)
        with counted_statements(monkeypatch) as names:
            scene.fire(count)
            scene.settle(scene.claim(count))
        taken.append(sorted(names))
    assert taken[0] == taken[1]


# -- rows

# enqueue: the job and its live row. claim: the live row. settle: the job, the live row, the execution.
MOST_ROWS = {"enqueue": 2, "claim": 1, "settle": 3}


def test_an_execution_writes_no_more_rows_than_it_must(scene):
    run_through(scene, 1)
    before = scene.rows_written()
    scene.enqueue(FEW)
    enqueued = scene.rows_written()
    claimed = scene.claim(FEW)
    started = scene.rows_written()
    scene.settle(claimed)
    settled = scene.rows_written()
    written = {
        "enqueue": (enqueued - before) / FEW, "claim": (started - enqueued) / FEW,
        "settle": (settled - started) / FEW,
    }  # fmt: skip
    assert min(written.values()) > 0, "nothing was counted"
    assert {verb: number for verb, number in written.items() if number > MOST_ROWS[verb]} == {}


# -- calls

MOST_CALLS = {
    "enqueue": 230,
    "fire": 200,  # of a run-once: by the rule
    "claim": 30,
    "settle": 250,
    "succeed": 36,
}  # for one more job in the batch


def test_one_more_job_costs_a_bounded_number_of_calls(scene):
    run_through(scene, MANY)
    scene.enqueue(MANY)
    scene.settle(scene.claim(MANY))
    totals = {}
    for count in (FEW, MANY):
        once = calls_of(lambda count=count: scene.enqueue(count))
        scene.settle(scene.claim(count))
        scene.schedule(count)
        fired = calls_of(lambda count=count: scene.fire(count))
        claimed: list[Claimed] = []
        started = calls_of(lambda count=count, claimed=claimed: claimed.extend(scene.claim(count)))
        settled = calls_of(lambda claimed=claimed: scene.settle(claimed))
        scene.enqueue(count)
        claimed = list(scene.claim(count))
        succeeded = calls_of(lambda claimed=claimed: scene.succeed(claimed))
        totals[count] = {
            "enqueue": once,
            "fire": fired,
            "claim": started,
            "settle": settled,
            "succeed": succeeded,
        }
    each = {verb: (totals[MANY][verb] - totals[FEW][verb]) / (MANY - FEW) for verb in MOST_CALLS}
    assert {verb: number for verb, number in each.items() if number > MOST_CALLS[verb]} == {}


MOST_CALLS_OF_A_PLAIN_FIRING = 120  # half of them read the definition, which is done once


def test_one_more_plain_firing_costs_a_bounded_number_of_calls(scene):
    scene.recur(1)
    scene.fire(1)
    totals = []
    for count in (FEW, MANY):
        scene.recur(count)
        totals.append(calls_of(lambda count=count: scene.fire(count)))
    assert (totals[1] - totals[0]) / (MANY - FEW) <= MOST_CALLS_OF_A_PLAIN_FIRING
