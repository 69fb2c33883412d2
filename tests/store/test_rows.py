"""Values read back as they were written, on both databases, with any content."""

import random
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import get_args, get_type_hints
from uuid import UUID

import pytest

from ostinato.core.model import (
    AskedBy,
    Change,
    Definition,
    Event,
    Execution,
    Facts,
    Job,
    Live,
    Skip,
    WaitsFor,
)
from ostinato.core.policy import Backoff, BackoffKind, Policies
from ostinato.core.schedule import Cron, Every, Manual, Once
from ostinato.core.times import Window
from ostinato.store import locking, rows
from ostinato.store.locking import Definitions
from tests.build import HOUR, NOW, a_definition, a_job, a_live

INSTANTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 11, 16, 12, 0, 0, 123457, tzinfo=UTC),
    datetime(2112, 9, 18, 0, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
TEXTS = [
    "", " ", "plain", "it's", '"quoted"', "back\\slash \\u0000 \\n", "%s %(x)s $1 :now {jobs} ?", "null", "NULL",
    "é漢字🎉\u2028\u200f", "line\nbreak\ttab\r", "--; DROP TABLE jobs", "x" * 5000,
]  # fmt: skip
NUMBERS = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]


class Any:
    """Random values of our kinds."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def of(self, hint):
        kinds = [kind for kind in (*get_args(hint), hint) if isinstance(kind, type) and kind is not type(None)]
        if type(None) in get_args(hint) and self.random.random() < 0.3:
            return None
        kind = kinds[0]
        if kind is UUID:
            return UUID(int=self.random.getrandbits(128))
        if kind is datetime:
            return self.random.choice(INSTANTS)
        if kind is int:
            return self.random.choice(NUMBERS)
        return self.random.choice(TEXTS if kind is str else list(kind))

    def value(self, kind, **fixed):
        hints = get_type_hints(kind)
        given = {field.name: self.of(hints[field.name]) for field in fields(kind)}
        return kind(**given | fixed)

    def live(self, job, number):
        held = self.random.random() < 0.5
        return self.value(
            Live, job_id=job.id, number=number, attempt=0, priority=1 + number % 10, slot=number,
            waits_for=None if held else self.of(WaitsFor | None), worker_id=UUID(int=1) if held else None,
            started_at=NOW if held else None,
        )  # fmt: skip


@pytest.fixture(params=range(3))
def anything(request):
    return Any(request.param)


def read(world, name, shape, **params):
    with world.store.database.read() as tx:
        return {value.id: value for value in map(shape.of, tx.rows(name, **params))}


def test_a_live_row_is_read_as_it_was_written(world, anything):
    job = a_job()
    lives = {live.id: live for live in (anything.live(job, n) for n in range(1, 60))}
    world.store.jobs.add([Change(job, add=tuple(lives.values()))])
    for name, params in {
        "live_of": {"ids": [job.id]},
        "live_by_id": {"ids": list(lives)},
        "list_live": {"job": job.id, "before": None, "limit": 1000},
    }.items():
        assert read(world, name, rows.LIVE, **params) == lives
    with world.store.database.write() as tx:
        assert {live.id: live for live in locking.lives_of(tx, [job.id])[job.id]} == lives
        held = {live_id: live for live_id, live in lives.items() if live.worker_id is not None}
        assert {i.id: i for i in map(rows.LIVE.of, tx.rows("held_by", worker=UUID(int=1)))} == held
        left = tx.rows("left_behind", limit=1000)
        assert {i.id: i for i in map(rows.LIVE.of, left)} == held


def test_a_live_row_is_altered_in_every_field_that_can_change(world, anything):
    job = a_job()
    lives = [anything.live(job, n) for n in range(1, 30)]
    world.store.jobs.add([Change(job, add=tuple(lives))])
    changed = []
    for live in lives:
        other = anything.live(job, live.number)
        kept = {name: getattr(live, name) for name in rows.IDENTITY}
        changed.append(replace(other, id=live.id, **kept))
    with world.store.database.write() as tx:
        locking.save(tx, [Change(job, alter=tuple(changed))])
    assert read(world, "live_of", rows.LIVE, ids=[job.id]) == {live.id: live for live in changed}


def test_a_claim_returns_the_row_as_it_is_then(world):
    job = a_job(version=3)
    world.store.jobs.add([Change(job, add=(a_live(job, args="[1]", checkpoint="{}", progress="{}", fence=4),))])
    claimed = world.claim(worker := world.worker())
    assert claimed[0].live == replace(
        world.lives(job.id)[0], worker_id=worker, started_at=NOW, fence=5, version=3, progress=None
    )
    assert (claimed[0].args, claimed[0].live.checkpoint) == ("[1]", "{}")


def test_an_execution_is_read_as_it_was_written(world, anything):
    job = a_job()
    ended = [
        anything.value(Execution, job_id=job.id, number=n, step="", attempt=n % 3, execution_number=n)
        for n in range(1, 60)
    ]
    world.store.jobs.add([Change(job, ended=tuple(ended))])
    history = world.store.history
    assert history.of_job(job.id, 100) == ended[::-1]
    assert sorted(history.page(100), key=lambda e: e.number) == ended
    assert history.find(ended[7].id) == ended[7]
    assert history.last_of(job.id) == ended[-1]


def test_facts_are_read_as_they_were_written(world, anything):
    jobs = [
        Job(UUID(int=n + 1), a_definition(), anything.value(
            Facts, version=n + 1, last_number=n, last_execution_number=n, repeats_done=n, next_due_at=None,
            ended_at=None, deleted_at=None,
        ))
        for n in range(40)
    ]  # fmt: skip
    world.store.jobs.add([Change(job) for job in jobs])
    assert {i: row.job for i, row in world.store.jobs.get([job.id for job in jobs]).items()} == {
        job.id: job for job in jobs
    }
    changed = [replace(job, facts=replace(job.facts, completed=7, anchor=INSTANTS[5])) for job in jobs]
    with world.store.database.write() as tx:
        locking.save(tx, [Change(job) for job in changed])
        found = tx.rows("lock_facts", ids=[job.id for job in jobs])
    assert dict(map(rows.facts_of, found)) == {job.id: job.facts for job in changed}


def test_skips_and_events_are_read_as_they_were_written(world, anything):
    job = a_job()
    skips = [
        anything.value(Skip, job_id=job.id, first_due_at=at, last_due_at=at, count=2**40, follows=None)
        for at in INSTANTS
    ]
    events = [anything.value(Event, job_id=job.id) for _ in range(30)]
    world.store.jobs.add([Change(job, skips=tuple(skips), events=tuple(events))])
    assert world.store.history.skips(job.id, 100) == skips[::-1]
    assert {e.id: e for e in world.store.history.events(100, job.id)} == {e.id: e for e in events}


OFFICE_HOURS = Window.from_json({"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "Europe/Paris"})
DEFINITIONS = [
    Definition("t", Every(timedelta(microseconds=1_000_001))),
    Definition("t", Once(INSTANTS[3]), args='{"a": "\'é漢"}', tags=("a", "'b\"", ""), metadata='{"x": null}'),
    Definition("t", Manual(), app="shop", key="k", name="n", description="d\nd", owner="o", declared="hash"),
    Definition(
        "t", Cron("0 9 * * mon-fri", "Europe/Paris"), queue="q", priority=1,
        policies=Policies(
            start_at=INSTANTS[1], end_at=INSTANTS[5], window=OFFICE_HOURS, retry_reset_period=HOUR, keep_days=3,
            backoff=Backoff(BackoffKind.STEPS, steps=(HOUR, timedelta(microseconds=3)), never_retry=("E",)),
            jitter=timedelta(milliseconds=1),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: type(d.schedule).__name__)
def test_a_definition_is_read_as_it_was_written(world, definition):
    job = Job(UUID(int=5), definition, Facts(NOW, NOW, NOW))
    world.store.jobs.add([Change(job)])
    assert world.job(job.id).definition == definition
    edited = replace(definition, args="[]", key=None, tags=("z",))
    with world.store.database.write() as tx:
        tx.run("update_definition", id=job.id, **rows.written(edited))
        assert Definitions().of(tx, {job.id.bytes: 1}) == {job.id.bytes: edited}


def test_a_definition_is_read_once_for_each_version(world, monkeypatch):
    job_id = world.add_one()
    world.store.jobs.get([job_id])
    monkeypatch.setattr(rows, "definition_of", None)
    assert world.job(job_id).definition.task == "work"


def test_only_so_many_definitions_are_kept(world):
    ids = world.add(5)
    definitions = Definitions(most=3)
    with world.store.database.read() as tx:
        assert len(definitions.of(tx, dict.fromkeys(ids, 1))) == 5
    assert len(definitions._known) == 3


def test_asked_is_an_enum_again(world):
    job_id = world.enqueue()[0]
    assert world.lives(job_id)[0].asked is AskedBy.SCHEDULE
