"""The live feed: no reader misses an event; events repeat only when another reader continues."""

import base64
import json
from datetime import timedelta

import pytest

from ostinato.core.errors import NotFound
from ostinato.core.model import Finished
from ostinato.store import feed as feeds
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import DONE, FAILURE


def ids(items):
    return [item.id for item in items]


def kinds(items):
    return [item.kind for item in items]


def finished(items):
    return {item.execution_id for item in items if item.kind == "execution.finished"}


def started(items):
    return {item.execution_id for item in items if item.kind == "execution.started"}


def test_it_begins_with_what_comes(world, service):
    world.run_all(world.worker())
    world.enqueue()
    world.run_all(world.worker())
    feed = service.feed()
    items, cursor = feed.since(None)
    assert items == []
    assert feed.since(cursor)[0] == []


def test_a_start_and_its_finish_are_told_once_each(world, service):
    feed = service.feed()
    _, cursor = feed.since(None)
    job_id = world.enqueue()[0]
    claimed = world.claim(world.worker())
    items, cursor = feed.since(cursor)
    (start,) = [item for item in items if item.kind == "execution.started"]
    assert (start.job_id, start.execution_id, start.at) == (job_id, claimed[0].live.id, world.now)
    world.advance(SECOND)
    items, cursor = feed.since(cursor)
    assert items == []
    world.settle(claimed, FAILURE)
    items, cursor = feed.since(cursor, ["execution.*"])
    assert kinds(items) == ["execution.finished"]
    assert items[0].data["outcome"] == "failed"
    assert (items[0].data["duration_ms"], items[0].data["error"], items[0].data["task"]) == (
        1000,
        "no",
        "work",
    )
    assert feed.since(cursor)[0] == []


def test_a_run_too_short_to_be_seen_is_told_with_its_start(world, service):
    feed = service.feed()
    _, cursor = feed.since(None)
    world.enqueue()
    world.run_all(world.worker())
    items, _ = feed.since(cursor)
    assert kinds(items) == ["worker.started", "execution.started", "execution.finished"]


def test_what_people_do_is_told_with_who_did_it(world, service):
    feed = service.feed()
    _, cursor = feed.since(None)
    job_id = world.add_one()
    service.jobs.pause(job_id, by="ops")
    items, cursor = feed.since(cursor)
    assert ("job.paused", "ops", job_id) in [(item.kind, item.by, item.job_id) for item in items]
    assert feed.since(cursor)[0] == []


@pytest.mark.parametrize("away", [SECOND, MINUTE, 3 * HOUR])
def test_another_process_goes_on_without_a_gap(world, service, away):
    """What was queued long ago, what ran and what came: all that finishes in between is told to the next reader."""
    worker = world.worker()
    old = world.add_one(at=world.now + 2 * HOUR)
    long = world.enqueue()[0]
    running = world.claim(worker)
    world.advance(2 * HOUR)
    world.fire()
    _, cursor = service.feed().since(None)
    world.advance(away)
    late = world.claim(worker)
    world.settle([*running, *late])
    new = world.enqueue(3)
    world.run_all(worker)
    items, _ = service.feed().since(cursor)
    assert {item.job_id for item in items if item.kind == "execution.finished"} == {old, long, *new}
    assert {item.job_id for item in items if item.kind == "execution.started"} >= {old, *new}


def test_a_cursor_is_found_again_after_many_old_rows_have_ended(world, service, monkeypatch):
    """More rows were live for long than a cursor names one by one."""
    monkeypatch.setattr(feeds, "LISTED", 3)
    waiting = world.enqueue(10)
    world.advance(HOUR)
    _, cursor = service.feed().since(None)
    world.run_all(world.worker())
    items, _ = service.feed().since(cursor)
    assert {item.job_id for item in items if item.kind == "execution.finished"} == set(waiting)


def test_a_result_that_was_settled_late_is_told(world, service):
    """Its worker could not reach the database for ten minutes: by its times it is old news."""
    world.enqueue()
    worker = world.worker()
    feed = service.feed()
    _, cursor = feed.since(None)
    claimed = world.claim(worker)
    at = world.advance(SECOND)
    for _ in range(3):
        world.advance(10 * MINUTE)
        _, cursor = feed.since(cursor)
    world.store.queue.settle([Finished(each.live, DONE, at) for each in claimed])
    assert finished(feed.since(cursor)[0]) == finished(service.feed().since(cursor)[0]) == {claimed[0].live.id}


def test_what_commits_later_than_its_times_say_is_told(world, service):
    """A transaction that waited for others: its ids and times are older than the last reading."""
    feed = service.feed()
    changes = [world.new(at=world.now)]
    world.advance(25 * SECOND)
    _, cursor = feed.since(None)
    world.store.jobs.add(changes)
    worker = world.worker()
    world.run_all(worker)
    expected = {changes[0].add[0].id}
    assert finished(feed.since(cursor)[0]) == finished(service.feed().since(cursor)[0]) == expected


def test_a_feed_of_one_job_tells_of_that_alone(world, service):
    one, other = world.enqueue(2)
    feed = service.feed(one)
    _, cursor = feed.since(None)
    world.run_all(world.worker())
    service.jobs.delete(other)
    items, _ = feed.since(cursor)
    assert {item.job_id for item in items} == {one}
    assert kinds(items) == ["execution.started", "execution.finished"]
    with pytest.raises(NotFound):
        service.feed(other)


def test_kinds_are_chosen_by_name_or_by_their_beginning(world, service):
    _, cursor = service.feed().since(None)
    job_id = world.enqueue()[0]
    world.run_all(world.worker())
    service.jobs.run(job_id, by="ops")

    def told(*chosen):
        return kinds(service.feed().since(cursor, chosen)[0])

    assert told("execution.finished") == ["execution.finished"]
    assert told("execution.*") == ["execution.started", "execution.finished"]
    assert set(told("job.run", "worker.*")) == {"worker.started", "job.run"}
    assert told("nothing") == []


def test_a_long_absence_is_told_in_parts_without_a_gap(world, service, monkeypatch):
    monkeypatch.setattr(feeds, "MOST_ITEMS", 4)
    worker = world.worker()
    expected = set(world.enqueue())
    long = world.claim(worker)
    world.advance(MINUTE)
    _, cursor = service.feed().since(None)
    for _ in range(10):
        world.advance(MINUTE)
        expected |= set(world.enqueue(2))
        world.run_all(worker)
    feed, told = service.feed(), []
    for reading in range(12):
        items, cursor = feed.since(cursor)
        told += items
        expected |= set(world.enqueue(1))  # and more while it reads
        world.run_all(worker)
        if reading == 2:
            world.settle(long)  # its id lies before what was read already
    for _ in range(40):
        items, cursor = feed.since(cursor)
        told += items
    assert {item.job_id for item in told if item.kind == "execution.finished"} == expected
    assert len(set(ids(told))) == len(told)


def test_a_clock_that_is_set_back_loses_nothing(world, service):
    feed = service.feed()
    _, cursor = feed.since(None)
    world.now -= 5 * HOUR
    new = world.enqueue()
    world.run_all(world.worker())
    for reader in (feed, service.feed()):
        assert {item.job_id for item in reader.since(cursor)[0] if item.kind == "execution.finished"} == set(new)


def test_two_readers_disturb_each_other_no_more_than_by_repeats(world, service):
    feed = service.feed()
    _, first = feed.since(None)
    world.enqueue()
    world.run_all(world.worker())
    told, second = feed.since(first)
    assert ids(feed.since(first)[0]) == ids(told)
    assert ids(service.feed().since(second)[0]) == ids(told)  # the last seconds are read again, under the same ids


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "e30", "bnVsbA", "é", "[" * 5000]
    + [
        base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
        for value in (
            [1, [], None],
            [-1, ["0" * 32] * 2, None],
            [10**40, ["0" * 32] * 2, None],
            ["a", ["b", "c"], 1],
        )
    ],
)
def test_what_is_not_a_cursor_is_refused(service, cursor):
    with pytest.raises(NotFound, match="not a place in the feed"):
        service.feed().since(cursor)


def test_a_cursor_stays_short(world, service):
    world.enqueue(300)
    world.advance(timedelta(days=1))
    _, cursor = service.feed().since(None)
    assert len(cursor) < 1500
