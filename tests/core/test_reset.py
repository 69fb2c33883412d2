"""The retries of a period: who shares them, and what a job does between using them up and the reset."""

from datetime import time

import pytest

from ostinato.core.model import AskedBy, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import Backoff, WhenExhausted
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import Life, hours
from tests.core.states import GIVE_UP, a_source, due_once, use_up

# -- waiting for the reset


def test_a_used_up_budget_waits_until_the_period_is_over():
    life = a_source(every=12 * HOUR)
    life.turn(12 * HOUR)
    use_up(life)
    assert [result for *_, result in life.results] == [OutcomeKind.FAILED] * 5
    assert (life.rows, life.status) == ([], Status.SCHEDULED)
    assert life.facts.next_due_at == NOW + 18 * HOUR
    assert life.turn(NOW + 18 * HOUR - SECOND - life.now) == 0


def test_after_the_reset_the_failed_occurrence_runs_again_when_no_later_one_was_due():
    life = a_source(every=12 * HOUR)
    life.turn(12 * HOUR)
    use_up(life)
    life.turn(NOW + 18 * HOUR - life.now)
    assert (life.only.number, life.only.attempt, life.only.due_at) == (1, 5, NOW + 12 * HOUR)
    assert (life.only.failures, life.facts.period_failures, life.skips) == (0, 0, [])
    assert life.facts.next_due_at == NOW + 24 * HOUR
    life.fail()
    assert life.only.run_at == life.now + MINUTE  # the backoff begins anew


def test_after_the_reset_the_newest_due_time_runs_and_those_between_are_one_skip():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    assert life.facts.next_due_at == NOW + 7 * HOUR
    life.turn(NOW + 7 * HOUR - life.now)
    assert (life.only.number, life.only.attempt, life.only.due_at) == (2, 0, NOW + 7 * HOUR)
    assert life.skipped == [("budget", *hours(2, 6), 5)]
    assert life.facts.next_due_at == NOW + 8 * HOUR


def test_a_reset_is_not_fired_ahead():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    life.turn(NOW + 7 * HOUR - AHEAD - life.now, ahead=AHEAD)
    assert (life.rows, life.facts.reset_at) == ([], NOW + 7 * HOUR)


def test_after_the_reset_the_window_is_kept():
    life = a_source(window=Window(start=time(13), end=time(14, 30)))
    life.turn(HOUR)
    use_up(life)
    life.turn(NOW + 7 * HOUR - life.now)
    assert (life.only.due_at, life.only.run_at) == (NOW + 2 * HOUR, NOW + HOUR + DAY)
    assert life.skipped == [("window", *hours(3, 7), 5)]


def test_a_run_by_hand_holds_the_reset_up_until_it_has_ended():
    life = a_source()
    life.turn(HOUR)
    use_up(life)
    life.run()
    life.claim()
    life.turn(NOW + 8 * HOUR - life.now)
    assert (life.only.asked, life.facts.next_due_at) == (AskedBy.HAND, None)
    life.settle()
    life.turn()
    assert (life.only.asked, life.only.due_at) == (AskedBy.SCHEDULE, NOW + 8 * HOUR)


def test_an_end_that_comes_while_the_budget_is_used_up_is_kept():
    life = a_source(end_at=NOW + 3 * HOUR)
    life.turn(HOUR)
    use_up(life)
    life.turn(DAY)
    assert (life.only.due_at, life.facts.next_due_at) == (NOW + 3 * HOUR, None)
    life.run_one()
    assert life.status is Status.COMPLETED


# -- the budget of a period

PERIOD = {"retry_reset_period": 6 * HOUR, "max_retries": 2}


def test_the_budget_of_a_period_is_shared_by_its_occurrences():
    life = due_once(**PERIOD)
    life.fail()
    life.retry_comes()
    life.run_one()
    life.turn(HOUR)
    life.fail()
    life.retry_comes()
    life.fail()  # the third failure of the period: the budget was two retries
    assert (life.rows, life.facts.period_failures) == ([], 3)
    life.turn(HOUR)
    life.fail()
    assert life.rows == []


def test_a_new_period_begins_with_the_first_failure_after_the_last_one():
    life = due_once(**PERIOD)
    life.fail()
    start = life.facts.period_start
    life.retry_comes()
    life.run_one()
    life.turn(7 * HOUR)
    life.fail()
    assert (life.facts.period_start, life.facts.period_failures) == (life.now, 1)
    assert start < life.now - 6 * HOUR
    assert life.only.run_at == life.now + MINUTE  # and the backoff begins anew


def test_the_backoff_goes_by_the_failures_of_the_period():
    life = due_once(**PERIOD | {"max_retries": 5})
    life.fail()
    life.retry_comes()
    life.run_one()
    life.turn(HOUR)
    life.fail()
    assert life.only.run_at == life.now + 2 * MINUTE


def test_g7_a_backoff_longer_than_the_period_does_not_retry_for_ever():
    slow = Backoff(base=7 * HOUR, cap=7 * HOUR)
    life = due_once(**PERIOD, backoff=slow, every=30 * DAY)
    life.turn(30 * DAY)
    while life.rows:
        life.retry_comes()
        life.fail()
    assert len(life.executions) == 3


@pytest.mark.parametrize(
    ("when_exhausted", "failures", "status"),
    [
        (WhenExhausted.CONTINUE, 3, Status.SCHEDULED),
        (WhenExhausted.FAIL, 3, Status.FAILED),
        (WhenExhausted.WAIT_RESET, 2, Status.SCHEDULED),
    ],
)
def test_a_used_up_period_does_what_when_exhausted_says(when_exhausted, failures, status):
    life = due_once(**PERIOD, when_exhausted=when_exhausted)
    while life.rows:
        life.retry_comes()
        life.fail()
    assert (life.facts.failed, life.status) == (failures, status)
    waits = when_exhausted is WhenExhausted.WAIT_RESET
    assert life.facts.reset_at == (NOW + 7 * HOUR if waits else None)


def test_give_up_waits_for_the_reset_too():
    life = due_once(**PERIOD, when_exhausted=WhenExhausted.WAIT_RESET)
    life.run_one(GIVE_UP)
    assert life.facts.next_due_at == life.now + 6 * HOUR


def test_a_run_by_hand_that_uses_the_budget_up_does_not_stop_the_schedule():
    life = Life(every=HOUR, **PERIOD, when_exhausted=WhenExhausted.WAIT_RESET)
    life.run()
    life.run_one(GIVE_UP)
    assert (life.facts.reset_at, life.facts.next_due_at) == (None, NOW + HOUR)


def test_g7_no_reset_gives_another_try_to_what_took_three_workers_with_it():
    life = due_once(**PERIOD, when_exhausted=WhenExhausted.WAIT_RESET)
    for _ in range(3):
        life.retry_comes()
        life.lose()
    assert (life.facts.reset_at, life.facts.next_due_at) == (None, NOW + 2 * HOUR)
