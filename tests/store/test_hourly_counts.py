"""Executions by the hour: counted exactly, stored once they are final, and never by a scan of all history."""

from datetime import timedelta

import pytest

from ostinato.core.model import Change
from ostinato.core.outcome import OutcomeKind
from ostinato.store import dashboard, rows
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, a_live, an_execution
from tests.store.conftest import World


@pytest.fixture
def job(world: World):
    job = a_job()
    world.store.jobs.add([Change(job)])
    return job


def ended(world: World, job, at, count=1, outcome=OutcomeKind.COMPLETED, **given):
    batch = [
        an_execution(
            job, id=world.chance.id(at), number=world.chance.id(at).int % 2**60, due_at=at, run_at=at, queued_at=at,
            started_at=at, finished_at=at + SECOND, outcome=outcome, **given,
        )
        for _ in range(count)
    ]  # fmt: skip
    with world.store.database.write() as tx:
        tx.run("insert_executions", [rows.EXECUTION.row(row) for row in batch])


def keep_all(world: World, now):
    """Store hours until none is left."""
    while world.store.hours.keep(now):
        pass


def table(world: World, since, now):
    return {hour.at: hour.ended and sum(hour.ended.values()) for hour in world.store.hours.between(since, now)}


def test_each_hour_has_what_was_queued_in_it(world, job):
    ended(world, job, NOW - 3 * HOUR, 2)
    ended(world, job, NOW - 2 * HOUR - SECOND, 1, OutcomeKind.FAILED)
    ended(world, job, NOW + MINUTE, 4)
    ended(world, job, NOW, 1, step="a")
    found = world.store.hours.between(NOW - 3 * HOUR, NOW + 2 * MINUTE)
    assert [hour.at for hour in found] == [NOW - n * HOUR for n in (3, 2, 1, 0)]
    assert found[0].ended[OutcomeKind.COMPLETED] == 2
    assert found[0].ended[OutcomeKind.FAILED] == 1
    assert [sum(hour.ended.values()) for hour in found] == [3, 0, 0, 4]


def test_an_hour_that_is_over_is_kept_and_not_counted_again(world, job):
    ended(world, job, NOW - HOUR, 2)
    keep_all(world, NOW)
    world.sql("DELETE FROM {executions}")
    assert table(world, NOW - HOUR, NOW) == {NOW - HOUR: 2, NOW: 0}


def test_an_hour_is_kept_only_when_nothing_of_it_is_live_or_it_is_a_day_old(world, job):
    live = a_live(job, id=world.chance.id(NOW - HOUR + MINUTE), queued_at=NOW - HOUR + MINUTE)
    world.store.jobs.change(job.id, lambda job, lives, last: Change(job, add=(live,)))
    ended(world, job, NOW - HOUR, 1)
    keep_all(world, NOW)
    ended(world, job, NOW - HOUR, 1)
    assert table(world, NOW - HOUR, NOW)[NOW - HOUR] == 2
    keep_all(world, NOW + DAY)
    ended(world, job, NOW - HOUR, 1)
    assert table(world, NOW - HOUR, NOW)[NOW - HOUR] == 2


def test_keeping_is_cheap_to_call_often_and_safe_to_repeat(world, job):
    ended(world, job, NOW - HOUR, 1)
    assert world.store.hours.keep(NOW) == dashboard.HOURS_OF_A_STEP
    keep_all(world, NOW)
    assert world.store.hours.keep(NOW + SECOND) == 0
    assert world.another().hours.keep(NOW) == 0
    assert world.store.hours.keep(NOW + HOUR) == 1


def test_who_asks_counts_the_newest_and_the_rest_is_unknown_until_it_is_kept(world, job, monkeypatch):
    monkeypatch.setattr(dashboard, "MOST_COUNTED", 5)
    for n in range(4):
        ended(world, job, NOW - n * HOUR, 2)
    since = NOW - timedelta(hours=3)
    assert list(table(world, since, NOW).values()) == [None, None, 2, 2]
    keep_all(world, NOW)
    assert list(table(world, since, NOW).values()) == [2, 2, 2, 2]
