"""What an execution came to: history, counters, the next attempt, the next time."""

from dataclasses import replace

import pytest

from ostinato.core.model import AskedBy, Status, WaitsFor
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    OutcomeKind,
    TimedOut,
)
from ostinato.core.policy import Backoff, OnLost, Overlap, WhenExhausted
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND, WORKER
from tests.core.life import FAILURE, SUCCESS, Life
from tests.core.states import GIVE_UP, NO, ONCE, due_once

# -- history


@pytest.mark.parametrize(
    ("outcome", "result", "value", "error"),
    [
        (Completed('{"n": 1}'), OutcomeKind.COMPLETED, '{"n": 1}', (None, None, None)),
        (Failed(NO), OutcomeKind.FAILED, None, ("ValueError", "no", "Traceback …")),
        (TimedOut(90 * SECOND), OutcomeKind.TIMED_OUT, None, ("TimedOut", "still running after 90 s", None)),
        (Cancelled("ann", "enough"), OutcomeKind.CANCELLED, None, ("Cancelled", "enough", None)),
        (Lost("its host is gone"), OutcomeKind.LOST, None, ("Lost", "its host is gone", None)),
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
    assert (ended.outcome, ended.result) == (result, value)
    assert (ended.error_kind, ended.error, ended.traceback) == error
    assert (ended.started_at, ended.finished_at) == (live.started_at, life.now)
    assert (ended.worker_id, ended.fence, ended.version) == (WORKER, 1, 1)
    assert {each: getattr(life.facts, each.value) for each in OutcomeKind} == {
        each: int(each is result) for each in OutcomeKind
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
    assert [live.asked for live in life.rows] == [AskedBy.HAND]
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
    assert (life.rows, life.results[-1]) == ([], (2, 0, OutcomeKind.CANCELLED))


def test_a_run_by_hand_beside_the_one_that_ended_the_job_is_queued_again():
    life = due_once(total_repeats=1, overlap=Overlap.ALLOW, max_overlap=2)
    by_schedule = life.claim()
    life.run()
    by_hand = life.claim()
    life.settle(SUCCESS, by_schedule)
    life.settle(Interrupted(), by_hand)
    assert (life.only.asked, life.status) == (AskedBy.HAND, Status.PENDING)
    life.run_one()
    assert life.status is Status.COMPLETED


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
