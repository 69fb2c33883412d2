"""What comes of an execution that a person has cancelled, or whose job was cancelled, deleted or paused meanwhile."""

import pytest

from ostinato.core.model import WAITING_PLACE, AskedBy, Status, WaitsFor
from ostinato.core.outcome import Cancelled, Deferred, Interrupted, Lost, TimedOut
from ostinato.core.policy import Overlap, WhenExhausted
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import FAILURE, SUCCESS, Life
from tests.core.states import ONCE, due_once

# -- cancelled by hand


def test_a_cancelled_execution_of_a_recurring_job_is_not_retried_and_the_job_goes_on():
    life = due_once()
    life.run_one(Cancelled("ann"))
    assert (life.rows, life.status, life.facts.next_due_at) == ([], Status.SCHEDULED, NOW + 2 * HOUR)


def test_a_cancelled_execution_of_a_run_once_cancels_the_job():
    life = Life(**ONCE)
    life.run_one(Cancelled("ann"))
    assert (life.rows, life.status) == ([], Status.CANCELLED)


def test_a_cancelled_execution_of_a_manual_job_leaves_it_as_it_was():
    life = Life(manual=True)
    life.run()
    life.run_one(Cancelled("ann"))
    assert (life.rows, life.status) == ([], Status.PENDING)


@pytest.mark.parametrize("outcome", [FAILURE, TimedOut(MINUTE), Lost(), Interrupted(), Deferred(NOW + DAY)])
@pytest.mark.parametrize(("given", "status"), [({"every": HOUR}, Status.SCHEDULED), (ONCE, Status.CANCELLED)])
def test_an_execution_asked_to_stop_comes_back_in_no_way(outcome, given, status):
    life = Life(**given)
    life.turn(HOUR)
    life.cancel_execution(life.claim())
    life.settle(outcome)
    assert (life.rows, life.status) == ([], status)
    assert len(life.executions) == 1


def test_an_execution_that_completes_though_asked_to_stop_has_completed():
    life = Life(**ONCE)
    life.cancel_execution(life.claim())
    life.settle()
    assert life.status is Status.COMPLETED


# -- operators win


@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Lost(), Interrupted(), Deferred(NOW + DAY), Cancelled()])
@pytest.mark.parametrize("given", [{"every": HOUR}, ONCE])
def test_g8_a_cancelled_job_stays_cancelled_whatever_the_run_does(outcome, given):
    life = Life(**given)
    life.turn(HOUR)
    life.claim()
    life.cancel()
    life.settle(outcome)
    assert (life.rows, life.status, life.facts.next_due_at) == ([], Status.CANCELLED, None)


@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Lost(), Interrupted(), Deferred(NOW + DAY), Cancelled()])
def test_g8_a_deleted_job_queues_nothing_again(outcome):
    life = due_once(overlap=Overlap.QUEUE_ONE)
    life.claim()
    life.turn(HOUR)
    life.delete()
    life.settle(outcome)
    assert (life.rows, life.facts.next_due_at) == ([], None)


@pytest.mark.parametrize(
    ("outcome", "records"),
    [
        (SUCCESS, (1, [])),
        (FAILURE, (1, [])),
        (TimedOut(MINUTE), (1, [])),
        (Lost(), (1, [])),
        (Interrupted(), (0, [("paused", NOW + HOUR, NOW + HOUR, 1)])),
        (Deferred(NOW + DAY), (0, [("paused", NOW + HOUR, NOW + HOUR, 1)])),
    ],
)
def test_g8_a_run_that_ends_while_its_job_is_paused_is_not_queued_again(outcome, records):
    life = due_once()
    life.claim()
    life.pause()
    life.advance(MINUTE)
    life.settle(outcome)
    assert (life.rows, life.status, life.facts.next_due_at) == ([], Status.PAUSED, None)
    assert (len(life.executions), life.skipped) == records


@pytest.mark.parametrize("outcome", [FAILURE, Lost(), Interrupted(), Deferred(NOW + DAY)])
def test_g8_the_execution_of_a_paused_run_once_waits_for_the_resume(outcome):
    life = Life(**ONCE)
    life.claim()
    life.pause()
    life.advance(MINUTE)
    life.settle(outcome)
    assert (life.only.waits_for, life.status, life.startable) == (WaitsFor.RESUME, Status.PAUSED, [])
    life.advance(2 * DAY)
    life.resume()
    assert life.startable == [life.only]


@pytest.mark.parametrize(
    ("when_exhausted", "status"),
    [
        (WhenExhausted.CONTINUE, Status.PAUSED),
        (WhenExhausted.FAIL, Status.FAILED),
        (WhenExhausted.WAIT_RESET, Status.PAUSED),
    ],
)
def test_a_budget_used_up_while_paused(when_exhausted, status):
    life = due_once(max_retries=0, retry_reset_period=DAY, when_exhausted=when_exhausted)
    life.claim()
    life.pause()
    life.settle(FAILURE)
    assert (life.rows, life.status, life.facts.next_due_at) == ([], status, None)


def test_the_last_repeat_that_completes_while_paused_completes_the_job():
    life = due_once(total_repeats=1)
    life.claim()
    life.pause()
    life.settle()
    assert (life.status, life.facts.paused_at) == (Status.COMPLETED, None)


def test_a_run_by_hand_during_a_pause_is_retried_released_and_found_again():
    life = Life(every=HOUR)
    life.pause()
    life.advance(SECOND)
    life.run()
    for outcome in (FAILURE, Interrupted(), Lost()):
        life.retry_comes()
        life.run_one(outcome)
        assert life.only.waits_for in (None, WaitsFor.TIME)


def test_a_run_by_hand_that_waits_comes_in_when_a_pause_takes_the_running_one_back():
    life = due_once()
    life.claim()
    life.pause()
    life.advance(SECOND)
    life.run()
    life.settle(Interrupted(), life.running[0])
    assert (life.only.asked, life.only.slot, life.startable) == (AskedBy.HAND, 0, [life.only])


@pytest.mark.parametrize("outcome", [FAILURE, Interrupted(), Lost()])
def test_g8_a_run_by_hand_from_before_the_pause_is_not_queued_again(outcome):
    life = Life(every=HOUR)
    life.run()
    life.claim()
    life.pause()
    life.settle(outcome)
    assert (life.rows, len(life.executions), life.skips) == ([], 1, [])


def test_who_waits_behind_a_paused_run_once_waits_for_the_resume_and_then_for_its_turn():
    life = Life(**ONCE)
    first = life.claim()
    life.advance(SECOND)
    life.run()
    life.pause()
    assert (life.waiting.waits_for, life.waiting.slot) == (WaitsFor.RESUME, WAITING_PLACE)
    life.resume()
    assert life.waiting.waits_for is WaitsFor.TURN
    life.pause()
    life.settle(SUCCESS, first)
    assert (life.only.slot, life.only.waits_for) == (0, WaitsFor.RESUME)
