"""What an execution came to: history, counters, the next attempt, the next time."""

from dataclasses import replace

import pytest

from ostinato.core.model import WAITING_PLACE, Asked, Result, Status, WaitsFor
from ostinato.core.outcome import Cancelled, Completed, Deferred, Error, Failed, Interrupted, Lost, TimedOut
from ostinato.core.policy import OnLost, Overlap, WhenExhausted
from ostinato.core.retry import Backoff
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, WORKER
from tests.core.life import FAILURE, SUCCESS, Life
from tests.core.states import due_once

ONCE = {"at": NOW, "max_retries": 3}
NO = Error("ValueError", "no", "Traceback …")
GIVE_UP = Failed(NO, final=True)


# -- history


@pytest.mark.parametrize(
    ("outcome", "result", "value", "error"),
    [
        (Completed('{"n": 1}'), Result.COMPLETED, '{"n": 1}', (None, None, None)),
        (Failed(NO), Result.FAILED, None, ("ValueError", "no", "Traceback …")),
        (TimedOut(90 * SECOND), Result.TIMED_OUT, None, ("TimedOut", "still running after 90 s", None)),
        (Cancelled("ann", "enough"), Result.CANCELLED, None, ("Cancelled", "enough", None)),
        (Lost("its host is gone"), Result.LOST, None, ("Lost", "its host is gone", None)),
    ],
)
def test_an_outcome_moves_the_execution_into_history_and_counts_it(outcome, result, value, error):
    life = due_once()
    live = life.claim()
    life.advance(MINUTE)
    life.settle(outcome)
    (ended,) = life.executions
    assert live.id not in life.lives
    assert (ended.id, ended.number, ended.attempt, ended.execution_number) == (live.id, 1, 0, 1)
    assert (ended.result, ended.value) == (result, value)
    assert (ended.error_kind, ended.error, ended.traceback) == error
    assert (ended.started_at, ended.finished_at) == (live.started_at, life.now)
    assert (ended.worker_id, ended.fence, ended.version) == (WORKER, 1, 1)
    assert {each: getattr(life.facts, each.value) for each in Result} == {
        each: int(each is result) for each in Result
    }


def test_who_cancelled_an_execution_is_kept():
    life = due_once()
    life.run_one(Cancelled("ann"))
    assert life.executions[0].by == "ann"


def test_a_step_of_a_workflow_is_not_counted_as_an_execution_of_the_job():
    life = due_once()
    live = life.claim()
    life.lives[live.id] = replace(live, slot=None, step="a")
    life.settle(GIVE_UP)
    assert (len(life.executions), life.facts.failed) == (1, 0)


# -- retries


def test_a_retry_is_a_new_execution_of_the_same_occurrence():
    life = due_once()
    life.fail(took=10 * SECOND)
    retry = life.only
    assert retry.id != life.executions[0].id
    assert (retry.number, retry.attempt, retry.execution_number, retry.due_at) == (1, 1, 2, NOW + HOUR)
    assert (retry.run_at, retry.waits_for, retry.failures) == (life.now + MINUTE, WaitsFor.TIME, 1)
    assert life.status is Status.SCHEDULED


def test_the_waits_follow_the_backoff():
    life = due_once(max_retries=8, every=30 * DAY)
    life.turn(30 * DAY)
    waits = []
    for _ in range(8):
        life.retry_comes()
        life.fail()
        waits.append((life.only.run_at - life.now).total_seconds())
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]


@pytest.mark.parametrize("outcome", [FAILURE, TimedOut(MINUTE), Failed(NO, retry_in=SECOND)])
@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_g7_a_failing_occurrence_runs_once_and_as_often_again_as_it_has_retries(outcome, max_retries):
    life = due_once(every=30 * DAY, max_retries=max_retries)
    life.turn(30 * DAY)
    while life.rows:
        life.retry_comes()
        life.run_one(outcome)
    assert len(life.executions) == 1 + max_retries
    assert [each.attempt for each in life.executions] == list(range(1 + max_retries))
    assert life.told == ["job.exhausted"]


def test_retry_later_spends_a_retry_and_waits_as_long_as_it_says():
    life = due_once(max_retries=1)
    life.run_one(Failed(NO, retry_in=7 * SECOND))
    assert (life.only.run_at, life.only.failures) == (life.now + 7 * SECOND, 1)
    life.retry_comes()
    life.run_one(Failed(NO, retry_in=7 * SECOND))
    assert life.rows == []


def test_give_up_spends_all_retries():
    life = due_once()
    life.run_one(GIVE_UP)
    assert (life.rows, life.facts.failed, life.told) == ([], 1, ["job.exhausted"])


def test_an_error_that_no_attempt_can_mend_is_not_retried():
    life = due_once(backoff=Backoff(never_retry=("ValueError",)))
    life.run_one(Failed(Error("KeyError", "x")))
    life.retry_comes()
    life.run_one(Failed(NO))
    assert (life.rows, life.facts.failed) == ([], 2)


def test_what_belongs_to_the_occurrence_is_handed_to_the_next_attempt():
    life = Life(manual=True, max_retries=3)
    life.run('{"x": 1}')
    live = life.claim()
    life.lives[live.id] = replace(live, checkpoint='"p"', losses=1, releases=2, progress="1")
    life.settle(FAILURE)
    retry = life.only
    assert (retry.args, retry.checkpoint) == ('{"x": 1}', '"p"')
    assert (retry.failures, retry.losses, retry.releases) == (1, 1, 2)
    assert (retry.progress, retry.worker_id, retry.fence) == (None, None, 0)


# -- when_exhausted


def test_continue_goes_on_with_the_next_occurrence_and_tells():
    life = due_once(max_retries=0)
    life.fail()
    assert (life.status, life.facts.next_due_at) == (Status.SCHEDULED, NOW + 2 * HOUR)
    assert life.told == ["job.exhausted"]


def test_fail_ends_the_job():
    life = due_once(max_retries=0, when_exhausted=WhenExhausted.FAIL)
    life.fail()
    assert (life.status, life.facts.next_due_at, life.facts.ended_at) == (Status.FAILED, None, life.now)
    assert life.turn(DAY) == 0


def test_fail_withdraws_what_the_schedule_has_waiting_and_not_what_a_person_asked_for():
    life = due_once(max_retries=0, when_exhausted=WhenExhausted.FAIL, overlap=Overlap.ALLOW, max_overlap=3)
    life.turn(HOUR)
    life.claim()
    life.run()
    life.advance(2 * HOUR)
    life.settle(FAILURE)
    assert [live.asked for live in life.rows] == [Asked.HAND]
    assert life.skipped == [("failed", NOW + 2 * HOUR, NOW + 4 * HOUR, 3)]
    assert life.status is Status.PENDING
    life.run_one()
    assert life.status is Status.FAILED


def test_what_runs_beside_the_one_that_ended_the_job_finishes_and_is_not_retried():
    life = due_once(max_retries=3, when_exhausted=WhenExhausted.FAIL, overlap=Overlap.ALLOW, max_overlap=2)
    life.turn(HOUR)
    first, second = life.claim(), life.claim()
    life.settle(GIVE_UP, first)
    assert life.status is Status.RUNNING
    life.settle(FAILURE, second)
    assert (life.rows, life.status) == ([], Status.FAILED)


def test_what_is_released_beside_the_one_that_ended_the_job_is_cancelled():
    life = due_once(when_exhausted=WhenExhausted.FAIL, overlap=Overlap.ALLOW, max_overlap=2)
    life.turn(HOUR)
    first, second = life.claim(), life.claim()
    life.settle(GIVE_UP, first)
    life.settle(Interrupted(), second)
    assert (life.rows, life.results[-1]) == ([], (2, 0, Result.CANCELLED))


def test_a_run_by_hand_beside_the_one_that_ended_the_job_is_queued_again():
    life = due_once(total_repeats=1, overlap=Overlap.ALLOW, max_overlap=2)
    by_schedule = life.claim()
    life.run()
    by_hand = life.claim()
    life.settle(SUCCESS, by_schedule)
    life.settle(Interrupted(), by_hand)
    assert (life.only.asked, life.status) == (Asked.HAND, Status.PENDING)
    life.run_one()
    assert life.status is Status.COMPLETED


# -- retry_reset_period

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


# -- lost


def test_a_loss_spends_no_retry_and_comes_back_at_once():
    life = due_once(max_retries=0)
    life.lose()
    assert (life.only.attempt, life.only.run_at, life.only.waits_for) == (1, life.now, None)
    assert (life.only.losses, life.only.failures, life.facts.lost) == (1, 0, 1)
    assert life.status is Status.QUEUED


def test_g7_the_second_loss_waits_with_spread_and_the_third_ends_the_occurrence_as_failed():
    life = due_once(when_exhausted=WhenExhausted.FAIL)
    life.lose()
    life.lose()
    assert life.now + MINUTE / 2 <= life.only.run_at <= life.now + MINUTE * 3 / 2
    life.retry_comes()
    life.lose()
    assert (life.rows, life.facts.lost, life.status) == ([], 3, Status.FAILED)
    assert life.told.count("execution.lost") == 3


def test_two_that_were_lost_together_come_back_apart():
    lives = [due_once(seed=seed) for seed in (1, 2)]
    for life in lives:
        life.lose()
        life.lose()
    assert lives[0].only.run_at != lives[1].only.run_at


def test_losses_and_failures_are_counted_apart():
    life = due_once(max_retries=1)
    life.lose()
    life.fail()
    life.retry_comes()
    life.lose()
    life.retry_comes()
    life.fail()
    assert (life.rows, life.facts.failed, life.facts.lost) == ([], 2, 2)


def test_work_that_must_not_repeat_is_not_repeated():
    life = due_once(on_lost=OnLost.FAIL)
    life.lose()
    assert (life.rows, life.status, life.told) == ([], Status.SCHEDULED, ["execution.lost", "job.exhausted"])


def test_g7_no_reset_gives_another_try_to_what_took_three_workers_with_it():
    life = due_once(**PERIOD, when_exhausted=WhenExhausted.WAIT_RESET)
    for _ in range(3):
        life.retry_comes()
        life.lose()
    assert (life.facts.reset_at, life.facts.next_due_at) == (None, NOW + 2 * HOUR)


# -- released


def test_an_interrupted_execution_is_as_if_it_had_never_been_claimed():
    life = due_once()
    live = life.claim()
    life.advance(MINUTE)
    life.settle(Interrupted())
    back = life.only
    assert (back.id, back.attempt, back.run_at, back.waits_for) == (live.id, 0, NOW + HOUR, None)
    assert (back.worker_id, back.started_at, back.version, back.progress) == (None, None, None, None)
    assert (back.fence, back.releases) == (live.fence + 1, 1)
    assert (life.executions, life.status) == ([], Status.QUEUED)


@pytest.mark.parametrize(("until", "run_at"), [(NOW + 3 * HOUR, NOW + 3 * HOUR), (NOW, NOW + HOUR + SECOND)])
def test_a_deferral_waits_until_then_and_at_least_a_second(until, run_at):
    life = due_once()
    life.run_one(Deferred(until))
    assert (life.only.attempt, life.only.run_at, life.only.waits_for) == (0, run_at, WaitsFor.TIME)
    assert life.executions == []


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


# -- run-once and manual jobs


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([SUCCESS], Status.COMPLETED),
        ([FAILURE, SUCCESS], Status.COMPLETED),
        ([FAILURE] * 4, Status.FAILED),
        ([GIVE_UP], Status.FAILED),
        ([Lost()] * 3, Status.FAILED),
        ([Lost(), SUCCESS], Status.COMPLETED),
    ],
)
@pytest.mark.parametrize("when_exhausted", WhenExhausted)
def test_a_run_once_ends_as_its_occurrence_does(outcomes, status, when_exhausted):
    life = Life(**ONCE, when_exhausted=when_exhausted)
    for outcome in outcomes:
        life.retry_comes()
        life.run_one(outcome)
    assert (life.rows, life.status, life.facts.ended_at) == ([], status, life.now)


def test_a_manual_job_never_ends():
    life = Life(manual=True, max_retries=0, when_exhausted=WhenExhausted.FAIL, total_repeats=1)
    for outcome in (SUCCESS, FAILURE, SUCCESS):
        life.run()
        life.run_one(outcome)
        assert (life.status, life.facts.ended_at) == (Status.PENDING, None)
    assert life.facts.repeats_done == 0


# -- operators win


@pytest.mark.parametrize(
    "outcome", [SUCCESS, FAILURE, Lost(), Interrupted(), Deferred(NOW + DAY), Cancelled()]
)
@pytest.mark.parametrize("given", [{"every": HOUR}, ONCE])
def test_g8_a_cancelled_job_stays_cancelled_whatever_the_run_does(outcome, given):
    life = Life(**given)
    life.turn(HOUR)
    life.claim()
    life.cancel()
    life.settle(outcome)
    assert (life.rows, life.status, life.facts.next_due_at) == ([], Status.CANCELLED, None)


@pytest.mark.parametrize(
    "outcome", [SUCCESS, FAILURE, Lost(), Interrupted(), Deferred(NOW + DAY), Cancelled()]
)
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
    assert (life.only.asked, life.only.slot, life.startable) == (Asked.HAND, 0, [life.only])


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
