"""Firing: a due job becomes a row of the queue, once, with any number of dispatchers."""

from datetime import timedelta

from ostinato.core.model import Status, WaitsFor
from ostinato.core.outcome import Deferred
from ostinato.core.policy import CatchUp, Overlap
from ostinato.store import firing
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import FAILURE, together


def test_a_due_job_becomes_a_queued_execution_and_its_next_time(world):
    job_id = world.add_one(every=HOUR)
    assert world.fire() == []
    world.advance(HOUR)
    (change,) = world.fire()
    assert change.job.id == job_id
    (live,) = world.lives(job_id)
    assert (live.due_at, live.run_at, live.number, live.attempt, live.waits_for) == (
        world.now,
        world.now,
        1,
        0,
        None,
    )
    assert world.facts(job_id).next_due_at == world.now + HOUR
    assert world.status(job_id) is Status.QUEUED
    assert world.fire() == []


def test_what_is_due_soon_is_put_into_the_queue_and_never_claimed_early(world):
    job_id = world.add_one(every=HOUR)
    world.advance(HOUR - AHEAD)
    assert world.fire() == []
    assert len(world.fire(ahead=AHEAD)) == 1
    worker = world.worker()
    claim = world.store.queue.claim(worker, ["work"], [], world.clock, 10)
    assert (claim.claimed, claim.next_at) == ((), NOW + HOUR)
    world.advance(AHEAD - timedelta(microseconds=1))
    assert world.claim(worker) == []
    world.advance(timedelta(microseconds=1))
    assert [c.live.job_id for c in world.claim(worker)] == [job_id]


def test_a_job_with_something_live_is_not_fired_ahead_of_its_time(world):
    job_id = world.add_one(every=HOUR)
    world.command(job_id, "run", None)
    world.advance(HOUR - AHEAD)
    assert world.fire(ahead=AHEAD) == []
    world.run_all(world.worker())
    assert len(world.fire(ahead=AHEAD)) == 1


def test_what_became_live_after_the_look_is_not_fired_ahead_of_its_time(world, monkeypatch):
    """Two dispatchers: the second sees the row of the first only when it has the lock."""
    job_id = world.add_one(every=SECOND)
    world.advance(SECOND)
    world.fire()
    world.advance(SECOND - AHEAD)
    locked = firing.Firing._lock_due

    def lock_as_if_nothing_were_live(self, tx, now, ahead, limit):
        return locked(self, tx, now + ahead, timedelta(0), limit)

    monkeypatch.setattr(firing.Firing, "_lock_due", lock_as_if_nothing_were_live)
    assert world.fire(ahead=AHEAD) == []
    assert world.skips(job_id) == []


def test_only_so_many_are_fired_at_once_the_oldest_first(world):
    ids = []
    for minutes in (5, 3, 1, 4, 2):
        ids.append(world.add_one(every=minutes * MINUTE))
    world.advance(5 * MINUTE)
    assert [change.job.id for change in world.fire(limit=2)] == [ids[2], ids[4]]
    assert {change.job.id for change in world.fire(limit=10)} == {ids[0], ids[1], ids[3]}


def test_jobs_that_are_paused_ended_cancelled_or_deleted_are_not_fired(world):
    for command in ("pause", "cancel", "delete"):
        world.command(world.add_one(every=HOUR), command)
    world.advance(DAY)
    assert world.fire() == []


def test_two_dispatchers_fire_each_occurrence_once(world):
    """G4, many rounds."""
    ids = world.add(40, every=MINUTE)
    stores = [world.another(), world.another()]
    worker = world.worker()
    for _ in range(12):
        world.advance(MINUTE)
        fired = together(*[lambda s=s: s.queue.fire_due(world.clock, AHEAD, 25) for s in stores])
        world.fire()
        assert all(len(changes) <= 25 for changes in fired)
        world.settle(world.claim(worker))
    for job_id in ids:
        assert world.due_times(job_id) == [NOW + n * MINUTE for n in range(1, 13)]
        assert world.skips(job_id) == []
    world.check()


# -- skips


def test_a_skip_that_continues_the_last_one_extends_its_row(world):
    job_id = world.add_one(every=MINUTE)
    world.advance(MINUTE)
    world.fire()
    (claimed,) = world.claim(world.worker())
    for _ in range(5):
        world.advance(MINUTE)
        world.fire()
    (skip,) = world.skips(job_id)
    assert (skip.reason, skip.count, skip.in_the_way) == ("overlap", 5, claimed.live.id)
    assert (skip.first_due_at, skip.last_due_at) == (NOW + 2 * MINUTE, NOW + 6 * MINUTE)
    assert world.facts(job_id).skipped == 5
    world.check()


def test_a_skip_for_another_reason_or_after_a_run_is_a_row_of_its_own(world):
    job_id = world.add_one(every=MINUTE)
    worker = world.worker()
    for _ in range(2):
        world.advance(MINUTE)
        world.fire()
        claimed = world.claim(worker)
        world.advance(MINUTE)
        world.fire()
        world.settle(claimed)
    world.advance(10 * MINUTE)
    world.fire()
    assert [(skip.reason, skip.count) for skip in world.skips(job_id)] == [
        ("missed", 9), ("overlap", 1), ("overlap", 1),
    ]  # fmt: skip
    world.check()


def test_many_jobs_that_are_skipped_at_once_extend_each_their_own(world):
    ids = world.add(30, every=MINUTE)
    world.advance(MINUTE)
    world.fire()
    for _ in range(3):
        world.advance(MINUTE)
        world.fire()
    assert all([skip.count for skip in world.skips(job_id)] == [3] for job_id in ids)
    world.check()


def test_an_absence_is_one_execution_and_one_skip(world):
    job_id = world.add_one(every=MINUTE)
    world.advance(DAY)
    world.fire()
    assert [live.due_at for live in world.lives(job_id)] == [world.now]
    assert [(skip.reason, skip.count) for skip in world.skips(job_id)] == [("missed", 24 * 60 - 1)]
    assert world.facts(job_id).next_due_at == world.now + MINUTE


# -- one after the other


def test_while_all_are_caught_up_the_settle_names_the_next_and_they_run_oldest_first(world):
    job_id = world.add_one(every=HOUR, catch_up=CatchUp.ALL)
    worker = world.worker()
    world.advance(5 * HOUR)
    for _ in range(5):
        assert len(world.run_all(worker)) == 1
    assert world.due_times(job_id) == [NOW + n * HOUR for n in range(1, 6)]
    assert world.facts(job_id).next_due_at == NOW + 6 * HOUR
    assert world.skips(job_id) == []


def test_a_fixed_delay_counts_from_the_finish(world):
    job_id = world.add_one(every=HOUR, fixed_delay=True)
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(world.worker())
    assert world.store.queue.next_wake() is None
    world.advance(10 * MINUTE)
    world.settle(claimed)
    assert world.facts(job_id).next_due_at == world.store.queue.next_wake() == world.now + HOUR


def test_one_may_wait_beside_the_one_that_runs(world):
    job_id = world.add_one(every=MINUTE, overlap=Overlap.QUEUE_ONE)
    worker = world.worker()
    world.advance(MINUTE)
    world.fire()
    first = world.claim(worker)
    world.advance(MINUTE)
    world.fire()
    world.advance(MINUTE)
    world.fire()
    assert [live.waits_for for live in world.lives(job_id)] == [None, WaitsFor.TURN]
    assert world.claim(worker) == []
    world.settle(first)
    (second,) = world.claim(worker)
    assert (second.live.due_at, second.live.slot) == (NOW + 2 * MINUTE, 0)
    assert [skip.count for skip in world.skips(job_id)] == [1]


# -- waiting for a time


def test_what_waits_for_a_time_is_let_in_when_it_has_come(world):
    job_id = world.add_one(every=HOUR)
    worker = world.worker()
    world.advance(HOUR)
    world.run_all(worker, FAILURE)
    (live,) = world.lives(job_id)
    assert (live.waits_for, live.run_at, live.attempt) == (WaitsFor.TIME, world.now + MINUTE, 1)
    assert world.store.queue.next_wake() == world.now + MINUTE
    world.advance(59 * SECOND)
    assert world.store.queue.time_has_come(world.now, 10) == 0
    assert world.claim(worker) == []
    world.advance(SECOND)
    assert world.claim(worker) == []
    assert world.store.queue.time_has_come(world.now, 10) == 1
    assert len(world.claim(worker)) == 1


def test_only_so_many_are_let_in_at_once_those_who_waited_longest_first(world):
    ids = world.enqueue(4)
    worker = world.worker()
    for claimed, minutes in zip(world.claim(worker), (4, 1, 3, 2), strict=True):
        world.settle([claimed], Deferred(NOW + minutes * MINUTE))
    world.advance(5 * MINUTE)
    assert world.store.queue.time_has_come(world.now, 3) == 3
    taken = [c.live.run_at for c in world.claim(worker)]
    assert taken == [NOW + n * MINUTE for n in (1, 2, 3)]
    assert len(ids) == 4


def test_an_idle_store_has_nothing_to_wake_for(world):
    assert world.store.queue.next_wake() is None
    world.enqueue()
    world.add(manual=True)
    assert world.store.queue.next_wake() is None
