"""Pause and resume: what is withdrawn, what waits, and what the time between comes to."""

import pytest

from ostinato.core.model import AskedBy, Status, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import CatchUp, Overlap, WhenExhausted
from ostinato.core.schedule import Once
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import Life, hours
from tests.core.states import a_life

# -- pause


def test_pause_takes_the_next_time_away():
    life = a_life("scheduled")
    life.pause()
    assert (life.status, life.facts.next_due_at, life.turn(30 * DAY)) == (Status.PAUSED, None, 0)


def test_pause_withdraws_a_queued_first_attempt_as_a_skip():
    life = a_life("queued")
    life.pause()
    assert (life.rows, life.executions) == ([], [])
    assert life.skipped == [("paused", *hours(1, 1), 1)]


def test_pause_ends_a_waiting_retry_as_cancelled_for_its_occurrence_has_its_record():
    life = a_life("backoff")
    life.pause()
    assert life.results == [(1, 0, OutcomeKind.FAILED), (1, 1, OutcomeKind.CANCELLED)]
    assert (life.rows, life.skips, life.facts.cancelled) == ([], [], 1)


def test_pause_lets_a_running_execution_finish_and_withdraws_who_waits():
    life = a_life("running", overlap=Overlap.QUEUE_ONE)
    life.turn(HOUR)
    life.pause()
    assert (life.status, life.only.running, life.only.cancel_asked_at) == (Status.RUNNING, True, None)
    assert life.skipped == [("paused", *hours(2, 2), 1)]
    life.settle()
    assert life.status is Status.PAUSED


def test_pause_ends_a_queued_run_by_hand_as_cancelled():
    life = a_life("scheduled")
    life.run()
    life.pause()
    assert (life.rows, life.results[-1], life.skips) == ([], (2, 0, OutcomeKind.CANCELLED), [])


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_the_only_execution_of_a_paused_run_once_waits_for_the_resume(state):
    life = a_life(state, every=None, at=NOW)
    life.pause()
    assert (life.status, life.only.waits_for, life.startable) == (Status.PAUSED, WaitsFor.RESUME, [])
    life.advance(SECOND)
    life.resume()
    assert life.only.waits_for is (WaitsFor.TIME if state == "backoff" else None)


def test_pause_takes_back_what_was_fired_ahead_and_it_has_no_record():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.pause()
    assert (life.rows, life.skips, life.facts.last_due_at) == ([], [], NOW + HOUR)
    life.advance(AHEAD)
    life.resume()
    assert life.skipped == [("paused", *hours(2, 2), 1)]


def test_a_paused_ended_job_that_was_run_once_more_goes_back_to_its_ending():
    life = a_life("failed")
    life.run()
    life.pause()
    assert (life.rows, life.status) == ([], Status.FAILED)


# -- resume


def test_resume_of_an_interval_counts_from_now_and_the_time_between_is_one_skip():
    life = a_life("paused")
    life.advance(5 * HOUR + 20 * MINUTE)
    life.resume()
    assert life.skipped == [("paused", *hours(2, 6), 5)]
    assert (life.facts.anchor, life.facts.next_due_at) == (life.now, life.now + HOUR)
    assert life.rows == []


def test_resume_of_a_cron_goes_on_with_the_next_match():
    life = Life(cron="0 * * * *")
    life.pause()
    life.advance(2 * HOUR + 20 * MINUTE)
    life.resume()
    assert life.skipped == [("paused", *hours(1, 2), 2)]
    assert life.facts.next_due_at == NOW + 3 * HOUR


def test_what_was_withdrawn_and_what_came_due_since_are_one_skip():
    life = a_life("queued")
    life.pause()
    life.advance(3 * HOUR)
    life.resume()
    assert life.skipped == [("paused", *hours(1, 4), 4)]


def test_resume_never_catches_up():
    life = a_life("paused", catch_up=CatchUp.ALL)
    life.advance(5 * HOUR + 20 * MINUTE)
    life.resume()
    assert (life.turn(), life.rows) == (0, [])


def test_resume_keeps_the_counters():
    life = a_life("paused")
    life.advance(DAY)
    life.resume()
    assert (life.facts.completed, life.facts.repeats_done, life.facts.last_number) == (1, 1, 1)


def test_a_start_yet_to_come_stays_where_it_is():
    life = Life(every=HOUR, start_at=NOW + 5 * HOUR)
    life.pause()
    life.advance(HOUR)
    life.resume()
    assert (life.facts.next_due_at, life.skips) == (NOW + 5 * HOUR, [])


def test_resume_counts_from_now_also_where_the_grid_began_at_a_start():
    life = Life(every=HOUR, start_at=NOW - 30 * DAY - 10 * MINUTE)
    life.pause()
    life.advance(2 * HOUR)
    life.resume()
    assert life.skipped == [("paused", NOW + 50 * MINUTE, NOW + 110 * MINUTE, 2)]
    assert life.facts.next_due_at == life.now + HOUR


@pytest.mark.parametrize("catch_up", CatchUp)
def test_an_overdue_run_once_starts_at_the_resume(catch_up):
    life = Life(at=NOW + HOUR, catch_up=catch_up)
    life.pause()
    life.advance(DAY)
    life.resume()
    assert (life.only.due_at, life.startable, life.status) == (NOW + HOUR, [life.only], Status.PENDING)


def test_an_overdue_run_once_waits_for_its_turn_behind_a_run_by_hand():
    life = Life(at=NOW + HOUR)
    life.pause()
    life.advance(DAY)
    life.run()
    life.resume()
    assert (life.waiting.due_at, life.waiting.asked) == (NOW + HOUR, AskedBy.SCHEDULE)
    life.run_one()
    life.run_one()
    assert life.status is Status.COMPLETED


def test_an_overdue_run_once_for_which_there_is_no_place_is_a_skip():
    life = Life(at=NOW + HOUR)
    life.pause()
    life.advance(DAY)
    life.run()
    running = life.claim()
    life.run()
    life.resume()
    assert life.skipped == [("overlap", NOW + HOUR, NOW + HOUR, 1)]
    assert life.skips[0].in_the_way == running.id


def test_a_run_once_that_is_not_due_yet_waits_for_its_time_after_the_resume():
    life = Life(at=NOW + DAY)
    life.pause()
    life.advance(HOUR)
    life.resume()
    assert (life.rows, life.facts.next_due_at) == ([], NOW + DAY)


def test_a_schedule_that_has_come_to_its_end_meanwhile_completes_at_the_resume():
    life = a_life("paused", end_at=NOW + 3 * HOUR)
    life.advance(DAY)
    assert life.status is Status.PAUSED
    life.resume()
    assert (life.status, life.skipped) == (Status.COMPLETED, [("paused", *hours(2, 3), 2)])


def test_a_fixed_delay_goes_on_one_period_after_the_resume():
    life = Life(every=HOUR, fixed_delay=True)
    life.pause()
    life.advance(DAY)
    life.resume()
    assert (life.facts.next_due_at, life.skips) == (life.now + HOUR, [])


@pytest.mark.parametrize(("paused_for", "next_in"), [(HOUR, 5 * HOUR), (7 * HOUR, HOUR)])
def test_a_used_up_budget_is_not_whole_again_by_a_resume(paused_for, next_in):
    life = Life(every=HOUR, max_retries=1, retry_reset_period=6 * HOUR, when_exhausted=WhenExhausted.WAIT_RESET)
    life.turn(HOUR)
    life.fail()
    life.pause()
    life.advance(paused_for)
    life.resume()
    assert (life.facts.next_due_at, life.rows) == (life.now + next_in, [])
    assert life.facts.reset_at == (life.facts.next_due_at if paused_for < 6 * HOUR else None)


def test_a_manual_job_can_be_paused_and_resumed():
    life = Life(manual=True)
    life.run()
    life.pause()
    assert (life.only.waits_for, life.status) == (WaitsFor.RESUME, Status.PAUSED)
    life.resume()
    assert (life.startable, life.status) == ([life.only], Status.PENDING)


def test_a_resume_does_not_begin_the_schedule_of_an_ended_job():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.advance(HOUR)
    life.edit(schedule=Once(NOW + MINUTE))
    life.run()
    life.pause()
    life.resume()
    assert life.only.asked is AskedBy.HAND
