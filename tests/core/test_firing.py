"""Turning what is due into a queued execution: the next time, bounds, repeats and fixed delays."""

from datetime import time

import pytest

from ostinato.core.lifecycle import fire
from ostinato.core.model import Status
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND, FixedChance, a_job
from tests.core.life import Life, hours

# -- a due time comes


def test_a_due_time_becomes_a_queued_execution_and_the_next_time():
    life = Life(every=HOUR)
    life.turn(HOUR)
    assert (life.only.due_at, life.only.run_at, life.only.waits_for) == (NOW + HOUR, NOW + HOUR, None)
    assert (life.facts.next_due_at, life.facts.last_due_at) == (NOW + 2 * HOUR, NOW + HOUR)


def test_g5_a_grid_does_not_drift_however_late_it_is_fired():
    life = Life(every=HOUR)
    for n in range(1, 6):
        life.turn(NOW + n * HOUR + 7 * SECOND - life.now)
        assert life.only.due_at == NOW + n * HOUR
        life.run_one(took=20 * MINUTE)


def test_g5_nothing_is_fired_before_its_time():
    life = Life(every=HOUR)
    life.advance(HOUR - 2 * SECOND)
    life.fire()
    assert (life.rows, life.facts.next_due_at) == ([], NOW + HOUR)


def test_what_is_fired_ahead_starts_at_its_due_time():
    life = Life(every=HOUR)
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    assert (life.only.due_at, life.only.run_at) == (NOW + HOUR, NOW + HOUR)
    assert (life.startable, life.facts.next_due_at) == ([], NOW + 2 * HOUR)
    life.advance(AHEAD)
    assert life.startable == [life.only]


def test_nothing_is_fired_ahead_while_an_occurrence_is_live():
    life = Life(every=HOUR)
    life.turn(HOUR)
    before = life.facts
    life.advance(HOUR - AHEAD)
    life.fire()
    assert (life.facts, life.skips) == (before, [])


def test_a_due_time_outside_the_window_is_not_dealt_with_ahead():
    life = Life(every=HOUR, window=Window(start=time(20), end=time(21)))
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    assert (life.skips, life.facts.next_due_at) == ([], NOW + HOUR)


@pytest.mark.parametrize("stopped", ["paused_at", "cancelled_at", "deleted_at"])
def test_g8_a_job_that_is_stopped_fires_nothing(stopped):
    job = a_job(**{stopped: NOW, "next_due_at": NOW})
    change = fire(job, [], NOW + MINUTE, FixedChance())
    assert (change.add, change.skips, change.job.facts.next_due_at) == ((), (), None)


# -- bounds


def test_end_at_is_the_last_due_time_inclusive_and_then_the_job_has_completed():
    life = Life(every=HOUR, end_at=NOW + 2 * HOUR)
    for due in hours(1, 2):
        life.turn(HOUR)
        assert life.only.due_at == due
        life.run_one()
    assert (life.status, life.facts.next_due_at) == (Status.COMPLETED, None)


def test_an_absence_beyond_the_end_catches_up_within_the_bounds():
    life = Life(every=HOUR, end_at=NOW + 3 * HOUR)
    life.turn(30 * DAY)
    assert (life.only.due_at, life.skipped) == (NOW + 3 * HOUR, [("missed", *hours(1, 2), 2)])
    life.run_one()
    assert life.status is Status.COMPLETED


def test_a_schedule_whose_last_due_times_were_all_missed_completes():
    life = Life(every=HOUR, end_at=NOW + 3 * HOUR, catch_up=CatchUp.NONE)
    life.turn(30 * DAY)
    assert (life.status, life.facts.skipped) == (Status.COMPLETED, 3)


# -- total_repeats


def test_total_repeats_counts_successes_of_the_schedule_and_not_runs_by_hand():
    life = Life(every=HOUR, total_repeats=2, max_retries=0)
    life.turn(HOUR)
    life.fail()
    life.run()
    life.run_one()
    for _ in range(2):
        assert life.status is Status.SCHEDULED
        life.turn(HOUR)
        life.run_one()
    assert (life.status, life.facts.repeats_done, life.facts.completed) == (Status.COMPLETED, 2, 3)
    assert life.turn(30 * DAY) == 0


def test_nothing_is_fired_beside_others_that_could_exceed_total_repeats():
    life = Life(every=HOUR, total_repeats=3, overlap=Overlap.ALLOW, max_overlap=5)
    for _ in range(4):
        life.turn(HOUR)
    assert [live.due_at for live in life.rows] == hours(1, 2, 3)
    assert life.skipped == [("overlap", *hours(4, 4), 1)]
    for _ in range(3):
        life.run_one()
    assert (life.status, life.facts.repeats_done) == (Status.COMPLETED, 3)


def test_a_failure_makes_room_for_another_repeat():
    life = Life(every=HOUR, total_repeats=2, overlap=Overlap.ALLOW, max_overlap=5, max_retries=0)
    life.turn(HOUR)
    life.turn(HOUR)
    life.fail()
    life.turn(HOUR)
    assert [live.due_at for live in life.rows] == hours(2, 3)


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING])
def test_the_last_repeat_is_not_disturbed_by_a_due_time_that_could_exceed_it(overlap):
    life = Life(every=HOUR, total_repeats=1, overlap=overlap)
    life.turn(HOUR)
    life.claim()
    life.turn(HOUR)
    assert (life.only.cancel_asked_at, life.skipped) == (None, [("overlap", *hours(2, 2), 1)])
    life.settle()
    assert life.status is Status.COMPLETED


def test_total_repeats_lowered_below_what_is_done_ends_at_the_next_success():
    life = Life(every=HOUR)
    for _ in range(3):
        life.turn(HOUR)
        life.run_one()
    life.edit(total_repeats=2)
    assert life.status is Status.SCHEDULED
    life.turn(HOUR)
    life.run_one()
    assert (life.status, life.facts.repeats_done) == (Status.COMPLETED, 4)


# -- fixed_delay


def test_a_fixed_delay_counts_from_the_finish():
    life = Life(every=HOUR, fixed_delay=True)
    life.turn(HOUR)
    assert life.facts.next_due_at is None
    life.run_one(took=25 * MINUTE)
    assert life.facts.next_due_at == NOW + 2 * HOUR + 25 * MINUTE


def test_a_fixed_delay_counts_from_the_finish_of_the_last_attempt():
    life = Life(every=HOUR, fixed_delay=True, max_retries=1)
    life.turn(HOUR)
    life.fail(took=MINUTE)
    assert life.facts.next_due_at is None
    life.retry_comes()
    life.fail(took=MINUTE)
    assert life.facts.next_due_at == NOW + 2 * HOUR + 3 * MINUTE


def test_a_missed_due_time_of_a_fixed_delay_is_one_however_long_the_absence():
    life = Life(every=SECOND, fixed_delay=True, catch_up=CatchUp.NONE)
    assert life.turn(365 * DAY) == 1
    assert life.skipped == [("missed", NOW + SECOND, NOW + SECOND, 1)]
    assert life.facts.next_due_at == life.now + SECOND
