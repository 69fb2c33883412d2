"""Retry, run and restart: what a person may start beside the schedule, or after the end."""

from datetime import time

import pytest

from ostinato.core.errors import Conflict
from ostinato.core.model import AskedBy, Status, WaitsFor
from ostinato.core.outcome import Cancelled, OutcomeKind
from ostinato.core.policy import FirstRun, Overlap
from ostinato.core.times import Window
from tests.build import AHEAD, DAY, HOUR, MINUTE, NOW, SECOND
from tests.core.life import FAILURE, SUCCESS, Life, hours
from tests.core.states import a_life

OTHER = '{"x": 1}'


# -- retry


def test_a_retry_goes_on_with_the_failed_occurrence_with_a_fresh_budget_at_once():
    life = a_life("failed", window=Window(start=time(13), end=time(13, 30)))
    life.advance(90 * MINUTE)
    life.retry()
    assert (life.only.number, life.only.attempt, life.only.due_at) == (1, 1, NOW + HOUR)
    assert (life.only.failures, life.only.run_at, life.startable) == (0, life.now, [life.only])
    assert life.status is Status.PENDING


def test_after_a_retry_the_schedule_goes_on_from_its_next_time_and_the_gap_is_a_skip():
    life = a_life("failed")
    life.advance(3 * HOUR + 20 * MINUTE)
    life.retry()
    assert life.skipped == [("failed", *hours(2, 4), 3)]
    assert life.facts.next_due_at == NOW + 5 * HOUR
    life.run_one()
    assert life.status is Status.SCHEDULED


def test_a_retry_that_fails_fails_the_job_again():
    life = a_life("failed")
    life.retry()
    life.fail()
    assert (life.status, life.facts.failed) == (Status.FAILED, 2)


def test_a_retry_of_a_run_once_decides_how_it_ends():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.retry()
    assert life.status is Status.PENDING
    life.run_one()
    assert (life.status, life.results) == (
        Status.COMPLETED,
        [(1, 0, OutcomeKind.FAILED), (1, 1, OutcomeKind.COMPLETED)],
    )


def test_a_retry_gives_three_more_losses():
    life = Life(at=NOW, max_retries=0)
    for _ in range(3):
        life.retry_comes()
        life.lose()
    life.retry()
    assert (life.only.losses, life.only.attempt) == (0, 3)


def test_a_retry_clears_the_budget_of_the_period():
    life = a_life("failed", retry_reset_period=DAY)
    life.retry()
    assert (life.facts.period_failures, life.facts.period_start) == (0, None)


def test_a_failed_job_without_an_execution_cannot_be_retried():
    life = a_life("failed")
    life.executions.clear()
    with pytest.raises(Conflict, match="run it, or restart it"):
        life.retry()


# -- run


def test_a_run_makes_an_extra_occurrence_and_never_moves_the_schedule():
    life = a_life("scheduled")
    life.advance(20 * MINUTE)
    life.run(OTHER)
    assert (life.only.number, life.only.asked, life.only.due_at) == (2, AskedBy.HAND, life.now)
    assert (life.only.args, life.startable, life.status) == (OTHER, [life.only], Status.PENDING)
    life.run_one()
    assert (life.facts.next_due_at, life.facts.repeats_done) == (NOW + 2 * HOUR, 1)


def test_a_run_starts_outside_the_window_for_a_person_wants_it():
    life = a_life("queued", window=Window(start=time(20), end=time(21)))
    life.run()
    assert life.only.run_at == life.now


@pytest.mark.parametrize("args", [None, OTHER])
def test_while_one_runs_a_run_takes_the_waiting_place_and_a_second_is_refused(args):
    life = a_life("running")
    life.run(args)
    assert (life.waiting.asked, life.waiting.waits_for) == (AskedBy.HAND, WaitsFor.TURN)
    with pytest.raises(Conflict, match="another run waits already"):
        life.run(args)
    life.settle(SUCCESS, life.running[0])
    assert (life.only.slot, life.only.args, life.startable) == (0, args, [life.only])


def test_while_one_runs_a_run_takes_a_free_slot():
    life = a_life("running", overlap=Overlap.ALLOW, max_overlap=2)
    life.run()
    assert sorted(live.slot for live in life.rows) == [0, 1]
    life.run()
    assert life.waiting is not None


@pytest.mark.parametrize("state", ["queued", "backoff"])
def test_while_one_only_waits_a_run_starts_that_one_now(state):
    life = a_life(state)
    before = life.only
    life.advance(10 * SECOND)
    life.run()
    assert (life.only.id, life.only.number, life.startable) == (before.id, 1, [life.only])


@pytest.mark.parametrize(
    ("state", "results", "skipped"),
    [
        ("queued", [], [("overlap", *hours(1, 1), 1)]),
        ("backoff", [(1, 0, OutcomeKind.FAILED), (1, 1, OutcomeKind.CANCELLED)], []),
    ],
)
def test_while_one_only_waits_a_run_with_other_args_replaces_it(state, results, skipped):
    life = a_life(state)
    life.run(OTHER)
    assert (life.only.number, life.only.args, life.only.slot) == (2, OTHER, 0)
    assert (life.results, life.skipped) == (results, skipped)


def test_a_run_starts_what_jitter_holds_back():
    life = a_life("queued", jitter=HOUR, seed=1)
    assert life.startable == []
    life.run()
    assert life.startable == [life.only]


def test_g5_a_run_does_not_start_early_what_was_fired_ahead():
    life = a_life("scheduled")
    life.turn(HOUR - AHEAD, ahead=AHEAD)
    life.run()
    assert [live.asked for live in life.startable] == []
    assert life.waiting.asked is AskedBy.HAND


def test_a_paused_job_can_be_run_and_stays_paused():
    life = a_life("paused")
    life.advance(SECOND)
    life.run()
    assert life.status is Status.PENDING
    life.run_one()
    assert (life.status, life.facts.next_due_at) == (Status.PAUSED, None)


def test_a_run_of_a_paused_run_once_starts_the_one_that_waits_for_the_resume():
    life = Life(at=NOW)
    life.pause()
    life.run()
    assert (life.only.number, life.startable, life.status) == (1, [life.only], Status.PENDING)
    life.run_one()
    assert life.status is Status.COMPLETED


@pytest.mark.parametrize("state", ["completed", "failed"])
@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Cancelled()])
def test_an_ended_job_can_be_run_and_goes_back_to_its_ending(state, outcome):
    life = a_life(state)
    life.advance(3 * HOUR)
    life.run()
    assert life.status is Status.PENDING
    while life.rows:
        life.retry_comes()
        life.run_one(outcome)
    assert (life.status, life.facts.next_due_at, life.skips) == (state, None, [])


def test_an_ended_run_once_ends_as_its_last_occurrence_did():
    life = Life(at=NOW, max_retries=0)
    life.fail()
    life.run()
    life.run_one()
    assert life.status is Status.COMPLETED


def test_a_run_before_its_time_does_not_end_a_run_once():
    life = Life(at=NOW + HOUR, max_retries=0)
    for outcome in (SUCCESS, FAILURE, Cancelled()):
        life.run()
        life.run_one(outcome)
        assert (life.status, life.facts.next_due_at) == (Status.SCHEDULED, NOW + HOUR)


def test_a_run_once_is_not_ended_by_a_run_beside_it():
    life = Life(at=NOW, max_retries=1, overlap=Overlap.ALLOW, max_overlap=2)
    first = life.claim()
    life.run()
    life.run_one()
    life.settle(FAILURE, first)
    assert (life.only.number, life.only.attempt) == (1, 1)


def test_a_run_once_all_of_whose_occurrences_were_cancelled_is_cancelled():
    life = Life(at=NOW)
    life.run(OTHER)
    life.run_one(Cancelled())
    assert life.status is Status.CANCELLED


# -- restart


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_a_restart_begins_as_new_and_the_counters_go_on(state):
    life = a_life(state)
    life.edit(end_at=None)
    life.advance(3 * HOUR + 20 * MINUTE)
    before = life.facts
    life.restart()
    facts = life.facts
    assert (life.status, facts.next_due_at, life.skips) == (Status.SCHEDULED, life.now + HOUR, [])
    assert (facts.repeats_done, facts.period_failures, facts.ended_as) == (0, 0, None)
    assert (facts.completed, facts.failed, facts.last_number) == (before.completed, before.failed, 1)


def test_a_restart_runs_at_once_where_the_first_run_is_now():
    life = Life(every=HOUR, first_run=FirstRun.NOW, total_repeats=1)
    life.run_one()
    assert life.status is Status.COMPLETED
    life.advance(20 * MINUTE)
    life.restart()
    assert (life.only.number, life.only.due_at, life.facts.next_due_at) == (2, life.now, life.now + HOUR)


def test_a_restarted_run_once_runs_at_once():
    life = Life(at=NOW)
    life.run_one()
    life.advance(HOUR)
    life.restart()
    assert (life.only.number, life.only.due_at, life.startable) == (2, NOW, [life.only])


def test_a_restart_beyond_the_end_completes_at_once():
    life = a_life("completed")
    life.advance(HOUR)
    life.restart()
    assert (life.status, life.rows) == (Status.COMPLETED, [])


def test_a_job_that_was_paused_when_it_ended_is_not_paused_after_a_restart():
    life = a_life("paused running", total_repeats=1)
    life.settle()
    life.restart()
    assert (life.status, life.facts.next_due_at) == (Status.SCHEDULED, life.now + HOUR)
