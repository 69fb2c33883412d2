"""Firing: what is due becomes a row of the queue, once, whoever looks and however often."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from ostinato.core import lifecycle
from ostinato.core.model import Status, WaitsFor
from ostinato.core.outcome import Deferred
from ostinato.core.policy import CatchUp, Overlap
from ostinato.store import firing
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import DONE, FAILURE, edited, together

AHEAD = timedelta(seconds=0.5)


def due_times(world, job_id):
    return sorted(e.due_at for e in world.history(job_id))


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
    claim = world.store.queue.claim(worker, ["work"], [], world.now, 10)
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
        fired = together(*[lambda s=s: s.queue.fire_due(world.now, AHEAD, 25) for s in stores])
        world.fire()
        assert all(len(changes) <= 25 for changes in fired)
        world.settle(world.claim(worker))
    for job_id in ids:
        assert due_times(world, job_id) == [NOW + n * MINUTE for n in range(1, 13)]
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
    assert due_times(world, job_id) == [NOW + n * HOUR for n in range(1, 6)]
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


# -- bounded queues


def test_the_schedule_fires_into_a_bounded_queue_only_while_there_is_room(world):
    world.add(10, every=MINUTE)
    world.store.workers.bound_queue("default", 3, world.now, "ops")
    world.advance(MINUTE)
    assert len(world.fire()) == 3
    assert world.fire() == []
    worker = world.worker()
    world.claim(worker, limit=2)
    assert len(world.fire()) == 2


def test_a_bounded_queue_is_filled_by_priority_then_the_oldest_first(world):
    late = world.add_one(every=MINUTE, priority=5)
    world.advance(SECOND)
    later = world.add_one(every=MINUTE, priority=5)
    urgent = world.add_one(every=MINUTE, priority=1)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    world.advance(2 * MINUTE)
    order = []
    worker = world.worker()
    for _ in range(3):
        order += [change.job.id for change in world.fire()]
        world.claim(worker)
    assert order == [urgent, late, later]


def test_with_one_worker_and_room_for_5_all_20_sources_run_once_before_any_runs_twice(world):
    """Seed 000's example."""
    ids = world.add(20, every=10 * SECOND, queue="sources")
    world.store.workers.bound_queue("sources", 5, world.now, "ops")
    worker = world.worker()
    runs = []
    world.advance(10 * SECOND)
    for _ in range(60):
        world.fire()
        assert len(world.store.history.live(100)) <= 6
        (claimed,) = world.claim(worker, limit=1)
        runs.append(claimed.live.job_id)
        world.advance(SECOND)
        world.fire()
        world.settle([claimed])
    assert [set(Counter(runs[n : n + 20]).values()) for n in (0, 20, 40)] == [{1}] * 3
    assert set(runs) == set(ids)
    world.check()


def test_two_dispatchers_never_fill_a_bounded_queue_beyond_its_bound(world):
    world.add(100, every=MINUTE)
    world.store.workers.bound_queue("default", 7, world.now, "ops")
    stores = [world.another() for _ in range(3)]
    world.advance(MINUTE)
    worker = world.worker()
    for _ in range(8):
        together(*[lambda s=s: s.queue.fire_due(world.now, AHEAD, 100) for s in stores])
        assert len(world.claim(worker)) == 7


def test_a_bounded_queue_wakes_the_dispatcher_when_it_has_room_and_not_when_it_is_full(world):
    world.add(2, every=MINUTE)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    assert world.store.queue.next_wake() == NOW + MINUTE
    world.advance(MINUTE)
    world.fire()
    assert world.store.queue.next_wake() is None
    with_bell(world, lambda: world.claim(world.worker()))
    assert world.store.queue.next_wake() == NOW + MINUTE


def test_a_full_queue_holds_nothing_else_back(world):
    world.add(50, every=MINUTE, queue="narrow")
    wide = world.add_one(every=2 * MINUTE, queue="wide")
    world.store.workers.bound_queue("narrow", 1, world.now, "ops")
    world.advance(MINUTE)
    world.fire()
    assert world.store.queue.next_wake() == NOW + 2 * MINUTE
    world.advance(MINUTE)
    assert [change.job.id for change in world.fire(limit=10)] == [wide]


def test_a_run_by_hand_enters_a_full_queue(world):
    job_id = world.add_one(every=MINUTE)
    world.store.workers.bound_queue("default", 1, world.now, "ops")
    world.enqueue(3)
    world.command(job_id, "run", None)
    assert len(world.claim(world.worker())) == 4


# -- one that cannot be dealt with


def test_a_definition_that_cannot_be_read_is_set_aside_and_the_others_go_on(world, caplog):
    broken, *others = world.add(4, every=HOUR)
    world.sql("UPDATE {jobs} SET schedule = '[\"from a newer version\"]' WHERE id = :id", id=broken)
    world.advance(HOUR)
    other = world.another()
    assert {change.job.id for change in other.queue.fire_due(world.now, AHEAD, 10)} == set(others)
    assert str(broken) in caplog.text
    assert other.queue.next_wake() == world.now + firing.SET_ASIDE
    assert other.queue.fire_due(world.now, AHEAD, 10) == []


def test_what_was_set_aside_keeps_its_due_time_and_is_fired_when_it_can_be_read(world):
    """G4: no due time is lost while nobody could deal with it."""
    job_id = world.add_one(every=HOUR)
    (text,) = world.sql("SELECT schedule FROM {jobs}")[0]
    world.sql("UPDATE {jobs} SET schedule = '{}'")
    world.advance(HOUR)
    other = world.another()
    assert other.queue.fire_due(world.now, AHEAD, 10) == []
    world.sql("UPDATE {jobs} SET schedule = :text", text=text)
    assert other.queue.fire_due(world.now + 59 * SECOND, AHEAD, 10) == []
    world.advance(MINUTE)
    assert len(world.fire()) == 1
    assert [live.due_at for live in world.lives(job_id)] == [NOW + HOUR]
    assert world.store.queue.next_wake() == NOW + 2 * HOUR


@pytest.mark.parametrize("rule", ["fire", "fire_plainly"])
def test_a_job_whose_rule_breaks_is_set_aside_and_the_others_go_on(world, monkeypatch, caplog, rule):
    broken, *others = world.add(4, every=HOUR, jitter=SECOND if rule == "fire" else timedelta(0))
    world.advance(HOUR)

    def breaks(job, *rest):
        return getattr(lifecycle, rule)(job, *rest) if job.id != broken else 1 / 0

    monkeypatch.setattr(firing, rule, breaks)
    assert {change.job.id for change in world.fire()} == set(others)
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    assert world.fire() == []
    world.advance(MINUTE)
    assert [change.job.id for change in world.fire()] == [broken]


def test_a_job_whose_change_cannot_be_saved_is_set_aside_and_the_others_go_on(world, monkeypatch, caplog):
    broken, *others = world.add(4, every=HOUR)
    world.advance(HOUR)

    def fire(job, *rest):
        change = lifecycle.fire(job, *rest)
        return change if job.id != broken else replace(change, add=(replace(change.add[0], priority=99),))

    monkeypatch.setattr(firing, "fire", fire)
    monkeypatch.setattr(firing, "fire_plainly", lambda *_: None)
    assert {change.job.id for change in world.fire()} == set(others)
    assert str(broken) in caplog.text
    assert world.fire() == []
    assert world.facts(broken).next_due_at == NOW + HOUR
    world.check()


# -- the clock


def test_after_a_clock_set_back_what_was_dealt_with_is_not_fired_again(world):
    """G5 and G4: nothing at or before the greatest due time dealt with, without looking first."""
    job_id = world.add_one(every=MINUTE)
    worker = world.worker()
    for _ in range(5):
        world.advance(MINUTE)
        world.run_all(worker)
    world.now = NOW + MINUTE + SECOND
    assert world.store.queue.rewind(world.now) == 1
    for _ in range(8):
        world.advance(MINUTE)
        world.run_all(worker)
    times = due_times(world, job_id)
    assert len(times) == len(set(times))
    assert times == [NOW + n * MINUTE for n in range(1, 10)]
    world.check()


def test_a_next_time_from_a_clock_that_was_years_ahead_is_computed_anew(world):
    job_id = world.add_one(every=HOUR)
    world.now = NOW + 3650 * DAY
    world.run_all(world.worker())
    world.now = NOW + 30 * MINUTE
    assert world.facts(job_id).next_due_at > NOW + 3650 * DAY
    assert world.store.queue.rewind(world.now) == 1
    assert world.facts(job_id).next_due_at == NOW + HOUR
    assert world.store.queue.rewind(world.now) == 0
    world.check()


def test_cron_jobs_are_computed_anew_when_the_zone_data_changes(world):
    ids = world.add(3, cron="0 9 * * *")
    world.add(2, every=HOUR)
    world.sql("UPDATE {jobs} SET next_due_at = next_due_at + 7200000000 WHERE kind = 'cron'")
    assert world.store.queue.rezone(world.now) == 3
    assert {world.facts(job_id).next_due_at for job_id in ids} == {NOW + 21 * HOUR}


def test_all_jobs_are_rewound_in_small_transactions_and_one_bad_one_stops_nobody(world, monkeypatch):
    monkeypatch.setattr(firing, "REWOUND", 3)
    broken, *_ = world.add(10, every=HOUR)

    def rewind(job, *rest):
        return lifecycle.rewind(job, *rest) if job.id != broken else 1 / 0

    monkeypatch.setattr(firing, "rewind", rewind)
    assert world.store.queue.rewind(NOW - HOUR) == 9


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


# -- the doorbell


def with_bell(world, act, rings=True):
    """Whether the transaction of `act` rings."""
    database, heard = world.store.database, []
    write = database.write

    def listening(*args):
        context = write(*args)

        class Listening:
            def __enter__(self):
                self.tx = context.__enter__()
                return self.tx

            def __exit__(self, *error):
                heard.append(self.tx.rings)
                return context.__exit__(*error)

        return Listening()

    database.write = listening
    try:
        result = act()
    finally:
        del database.write
    assert any(heard) is rings
    return result


def test_the_bell_rings_for_whoever_has_something_to_do(world):
    with_bell(world, lambda: world.add(every=HOUR))
    with_bell(world, world.enqueue)
    worker = world.worker()
    claimed = with_bell(world, lambda: world.claim(worker), rings=False)
    with_bell(world, lambda: world.settle(claimed), rings=False)
    world.advance(HOUR)
    with_bell(world, world.fire)
    with_bell(world, lambda: world.settle(world.claim(worker), FAILURE))
    world.advance(MINUTE)
    with_bell(world, lambda: world.store.queue.time_has_come(world.now, 10))
    with_bell(world, lambda: world.store.queue.time_has_come(world.now, 10), rings=False)
    with_bell(world, lambda: world.store.workers.leave(worker, world.now), rings=False)


def test_the_bell_rings_for_what_is_handed_back_let_in_or_named_by_a_settle(world):
    worker = world.worker()
    world.enqueue()
    world.claim(worker)
    with_bell(world, lambda: world.store.workers.leave(worker, world.now))
    worker = world.worker()
    world.settle(world.claim(worker))
    world.add(every=HOUR, fixed_delay=True)
    world.advance(HOUR)
    world.fire()
    claimed = world.claim(worker)
    with_bell(world, lambda: world.settle(claimed, DONE))


@pytest.mark.parametrize("command", ["resume", "edit"])
def test_the_bell_rings_for_a_new_next_time(world, command):
    job_id = world.add_one(every=HOUR)
    if command == "resume":
        with_bell(world, lambda: world.command(job_id, "pause"), rings=False)
        with_bell(world, lambda: world.command(job_id, "resume"))
    else:
        wanted = edited(world.job(job_id).definition, name="other")
        with_bell(world, lambda: world.command(job_id, "edit", wanted))
