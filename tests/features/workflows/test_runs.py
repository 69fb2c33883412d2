"""A run of a workflow as its job sees it: the next attempt, the schedule, people, and the time it may take."""

import pytest

from ostinato.core.model import Status
from ostinato.core.outcome import Cancelled, Completed, Interrupted, OutcomeKind
from ostinato.core.policy import Overlap, WhenExhausted
from ostinato.features.workflows.rules import RunState
from tests.build import HOUR, MINUTE
from tests.core.life import FAILURE
from tests.features.workflows.life import DIAMOND, LINE, FlowLife, begun

# -- the next attempt of a run


def test_the_retries_of_the_job_go_on_from_the_failed_step():
    life = begun(max_retries=1)
    life.does("a")
    life.does("b", FAILURE)
    assert life.status is Status.SCHEDULED
    life.turn(MINUTE)
    life.begin()
    assert list(life.steps) == ["b"]
    life.does("b")
    life.does("c")
    assert life.record == [
        ("a", 0, "completed"), ("b", 0, "failed"), ("b", 1, "completed"), ("c", 0, "completed")
    ]  # fmt: skip
    assert (life.runs, life.status) == ([OutcomeKind.FAILED, OutcomeKind.COMPLETED], Status.COMPLETED)


def test_a_retry_by_hand_goes_on_from_the_failed_step_by_the_same_version():
    life = begun()
    life.does("a", {"n": 1})
    life.does("b", FAILURE)
    life.versions.append(life.versions[0])
    life.retry()
    life.begin()
    assert list(life.steps) == ["b"]
    assert RunState.read(life.run.checkpoint).version == 1


def test_a_retry_from_the_start_runs_everything_again_by_the_newest_version():
    life = begun()
    life.does("a")
    life.does("b", FAILURE)
    life.versions.append(life.versions[0])
    life.retry(from_start=True)
    life.begin()
    assert (list(life.steps), life.steps["a"].attempt) == (["a"], 1)
    assert RunState.read(life.run.checkpoint).version == 2
    for name in "abc":
        life.does(name)
    assert [each for each in life.record if each[0] == "b"] == [("b", 0, "failed"), ("b", 1, "completed")]
    assert life.status is Status.COMPLETED


def test_an_edit_of_the_job_does_not_touch_its_steps():
    life = begun()
    life.edit(queue="other", priority=1)
    assert (life.steps["a"].queue, life.steps["a"].task) == ("default", "a")


# -- the schedule goes by the run


def test_the_success_of_the_schedule_is_that_of_the_workflow():
    life = FlowLife(LINE, every=HOUR, total_repeats=1)
    life.turn(HOUR)
    life.begin()
    for name in "ab":
        life.does(name)
    assert (life.facts.repeats_done, life.status) == (0, Status.RUNNING)
    life.does("c")
    assert (life.facts.repeats_done, life.status) == (1, Status.COMPLETED)


def test_a_due_time_is_skipped_while_a_run_waits_for_its_steps():
    life = FlowLife(LINE, every=HOUR)
    life.turn(HOUR)
    life.begin()
    life.turn(HOUR)
    assert [each[0] for each in life.skipped] == ["overlap"]


def test_a_failed_workflow_counts_as_one_failure_of_its_job():
    life = FlowLife(LINE, every=HOUR, max_retries=0, when_exhausted=WhenExhausted.FAIL)
    life.turn(HOUR)
    life.begin()
    life.does("a", FAILURE)
    assert (life.facts.failed, life.status) == (1, Status.FAILED)


# -- people


def test_a_pause_lets_the_run_finish():
    life = FlowLife(LINE, every=HOUR)
    life.turn(HOUR)
    life.begin()
    life.pause()
    for name in "abc":
        life.does(name)
    assert (life.status, life.runs, life.rows) == (Status.PAUSED, [OutcomeKind.COMPLETED], [])


def test_a_released_step_of_a_paused_job_goes_on():
    life = FlowLife(LINE, every=HOUR)
    life.turn(HOUR)
    life.begin()
    claimed = life.start(life.steps["a"])
    life.pause()
    life.settle(Interrupted(), claimed)
    assert life.steps["a"].waits_for is None


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_what_stops_the_job_stops_its_steps(command):
    life = begun(DIAMOND)
    life.does("a")
    running = life.start(life.steps["b"])
    getattr(life, command)()
    assert set(life.steps) == {"b"}
    assert life.steps["b"].cancel_asked_at is not None
    life.settle(Cancelled("me"), running)
    assert life.rows == []
    assert life.record[1:] == [("c", 0, "cancelled"), ("b", 0, "cancelled")]
    assert life.runs == [OutcomeKind.CANCELLED]


def test_a_cancelled_job_of_which_no_step_runs_is_over_at_once():
    life = begun()
    life.cancel()
    assert (life.rows, life.runs, life.record) == ([], [OutcomeKind.CANCELLED], [("a", 0, "cancelled")])


def test_a_result_after_the_cancel_is_kept_and_starts_nothing():
    life = begun()
    running = life.start(life.steps["a"])
    life.cancel()
    life.settle(Completed(), running)
    assert (life.rows, life.record, life.runs) == ([], [("a", 0, "completed")], [OutcomeKind.CANCELLED])


@pytest.mark.parametrize("by", ["run", "step"])
def test_a_run_is_cancelled_by_its_own_id_or_that_of_a_step(by):
    life = FlowLife(DIAMOND, every=HOUR)
    life.turn(HOUR)
    life.begin()
    life.does("a")
    running = life.start(life.steps["b"])
    life.cancel_execution(life.run if by == "run" else life.steps["c"])
    assert set(life.steps) == {"b"}
    life.settle(Cancelled("me"), running)
    assert (life.rows, life.runs, life.status) == ([], [OutcomeKind.CANCELLED], Status.SCHEDULED)


def test_a_run_that_cannot_be_stopped_is_ended_by_force():
    life = begun()
    life.start(life.steps["a"])
    life.cancel_execution(life.run, force=True)
    assert (life.rows, life.runs, life.status) == ([], [OutcomeKind.CANCELLED], Status.CANCELLED)


@pytest.mark.parametrize("command", ["run", "job"])
def test_the_release_of_the_last_step_ends_a_run_that_stops(command):
    life = begun(every=HOUR)
    running = life.start(life.steps["a"])
    if command == "run":
        life.cancel_execution(life.run)
    else:
        life.cancel()
    life.release(running)
    assert (life.rows, life.record, life.runs) == ([], [("a", 0, "cancelled")], [OutcomeKind.CANCELLED])


def test_a_released_step_runs_again():
    life = begun(DIAMOND, max_retries=0)
    life.release(life.start(life.steps["a"]))
    life.does("a")
    assert set(life.steps) == {"b", "c"}


def test_a_step_that_stops_by_itself_because_somebody_asked_cancels_its_run():
    life = begun(DIAMOND)
    life.does("a")
    life.does("b", Cancelled("me"))
    assert (life.rows, life.runs) == ([], [OutcomeKind.CANCELLED])


def test_cancel_running_makes_way_for_the_next_due_time():
    life = FlowLife(LINE, every=HOUR, overlap=Overlap.CANCEL_RUNNING)
    life.turn(HOUR)
    life.begin()
    running = life.start(life.steps["a"])
    life.turn(HOUR)
    assert life.waiting is not None
    life.settle(Cancelled(), running)
    assert (life.waiting, [live.number for live in life.rows]) == (None, [2])


# -- out of time


def test_a_run_that_takes_too_long_stops_its_steps_and_has_timed_out():
    life = begun(DIAMOND, timeout=MINUTE, max_retries=1)
    life.does("a")
    running = life.start(life.steps["b"])
    life.advance(MINUTE)
    life.time_out()
    assert set(life.steps) == {"b"}
    life.time_out()
    life.settle(Cancelled(), running)
    assert (life.runs, life.facts.timed_out) == ([OutcomeKind.TIMED_OUT], 1)
    life.turn(MINUTE)
    life.begin()
    assert {name: live.attempt for name, live in life.steps.items()} == {"b": 1, "c": 1}


def test_a_run_of_which_no_step_runs_has_timed_out_at_once():
    life = begun(timeout=MINUTE)
    life.advance(MINUTE)
    life.time_out()
    assert (life.rows, life.runs) == ([], [OutcomeKind.TIMED_OUT])
