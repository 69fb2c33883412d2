"""The retries of a period: who shares them, and what a job does between using them up and the reset."""

from datetime import time

from ostinato.core.model import Asked, Result, Status
from ostinato.core.window import Window
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import AHEAD, hours
from tests.core.states import a_source, use_up


def test_a_used_up_budget_waits_until_the_period_is_over():
    life = a_source(every=12 * HOUR)
    life.turn(12 * HOUR)
    use_up(life)
    assert [result for *_, result in life.results] == [Result.FAILED] * 5
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
    assert (life.only.asked, life.facts.next_due_at) == (Asked.HAND, None)
    life.settle()
    life.turn()
    assert (life.only.asked, life.only.due_at) == (Asked.SCHEDULE, NOW + 8 * HOUR)


def test_an_end_that_comes_while_the_budget_is_used_up_is_kept():
    life = a_source(end_at=NOW + 3 * HOUR)
    life.turn(HOUR)
    use_up(life)
    life.turn(DAY)
    assert (life.only.due_at, life.facts.next_due_at) == (NOW + 3 * HOUR, None)
    life.run_one()
    assert life.status is Status.COMPLETED
