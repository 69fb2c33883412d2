"""The steps of a run: their course, references and conditions, failures, and whatever else may happen."""

import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.model import Status, WaitsFor
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
from ostinato.core.policy import OnLost
from ostinato.features.workflows.rules import RunState
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.core.life import FAILURE
from tests.features.workflows.life import DIAMOND, LINE, FlowLife, begun, step

# -- the plain course


def test_a_run_that_has_begun_is_running_though_nobody_holds_it():
    life = begun()
    assert life.status is Status.RUNNING
    assert (life.run.waits_for, life.run.worker_id, life.run.slot) == (WaitsFor.STEPS, None, 0)
    assert [(s.step, s.task, s.slot, s.attempt, s.args) for s in life.steps.values()] == [("a", "a", None, 0, "{}")]


def test_steps_run_one_after_the_other_and_the_last_one_ends_the_run():
    life = begun()
    for name in "abc":
        assert list(life.steps) == [name]
        life.does(name)
    assert life.record == [("a", 0, "completed"), ("b", 0, "completed"), ("c", 0, "completed")]
    assert (life.status, life.rows, life.facts.completed) == (Status.COMPLETED, [], 1)


def test_steps_count_neither_as_runs_nor_as_executions():
    life = begun()
    for name in "abc":
        life.does(name)
    facts = life.facts
    assert (facts.completed, facts.last_number, facts.last_execution_number, facts.repeats_done) == (
        1,
        1,
        1,
        1,
    )
    assert {each.execution_number for each in life.executions} == {1}


def test_branches_run_side_by_side_and_join():
    life = begun(DIAMOND)
    life.does("a")
    assert set(life.steps) == {"b", "c"}
    life.does("c")
    assert set(life.steps) == {"b"}
    life.does("b")
    assert set(life.steps) == {"d"}
    life.does("d")
    assert life.status is Status.COMPLETED


def test_several_steps_may_be_running_at_once():
    life = begun(DIAMOND)
    life.does("a")
    b, c = life.start(life.steps["b"]), life.start(life.steps["c"])
    life.settle(Completed(), c)
    life.settle(Completed(), b)
    assert set(life.steps) == {"d"}


# -- references and conditions


def test_references_are_resolved_when_the_step_is_queued():
    nodes = [
        step("a", args={"region": {"$ref": "payload.region"}}),
        step("b", "a", args={"n": {"$ref": "a.result.rows.1.n"}, "all": [{"$ref": "a.result"}]}),
    ]
    args = {"workflow": 1, "payload": {"region": "eu"}}
    life = begun(nodes, args=json.dumps(args))
    assert json.loads(life.steps["a"].args) == {"region": "eu"}
    life.does("a", {"rows": [{}, {"n": 5}]})
    assert json.loads(life.steps["b"].args) == {"n": 5, "all": [{"rows": [{}, {"n": 5}]}]}


def test_a_schedule_brings_what_there_is_to_say_about_it():
    nodes = [
        {"id": "t", "type": "trigger_schedule"},
        step("a", "t", args={"about": {"$ref": "trigger"}, "x": {"$ref": "t.payload.x"}}),
    ]
    life = FlowLife(nodes, every=HOUR, name="nightly", args=json.dumps({"workflow": 1, "payload": {"x": 1}}))
    life.turn(HOUR)
    life.begin()
    told = json.loads(life.steps["a"].args)
    about = told["about"]
    assert told["x"] == 1
    assert about["scheduled_job_id"] == str(life.job.id)
    assert (about["scheduled_job_name"], about["repeat_number"], about["payload"]) == ("nightly", 0, {"x": 1})
    assert about["timestamp"] == (NOW + HOUR).isoformat()


def test_a_reference_to_nothing_fails_the_step_without_starting_it():
    life = begun([step("a", args={"x": {"$ref": "payload.y"}}), step("b", "a")])
    assert life.record == [("a", 0, "failed")]
    assert life.runs == [OutcomeKind.FAILED]
    assert "payload.y" in life.executions[-1].error


@pytest.mark.parametrize(("count", "ran"), [(0, []), (3, ["b"])])
def test_a_condition_decides_when_the_step_would_be_queued(count, ran):
    life = begun([step("a"), step("b", "a", when="a.result.count > 0")])
    life.does("a", {"count": count})
    assert list(life.steps) == ran


def test_what_comes_after_only_skipped_steps_is_skipped_and_a_join_is_not():
    nodes = [
        step("a"),
        step("yes", "a", when="a.result"),
        step("no", "a", when="not a.result"),
        step("after_no", "no"),
        step("join", "yes", "after_no", args={"n": {"$ref": "no.result.x"}}),
    ]
    life = begun(nodes)
    life.does("a", True)
    assert list(life.steps) == ["yes"]
    life.does("yes")
    assert json.loads(life.steps["join"].args) == {"n": None}
    life.does("join")
    states = json.loads(life.executions[-1].result)
    assert states == {
        "a": "completed", "yes": "completed", "no": "skipped", "after_no": "skipped", "join": "completed"
    }  # fmt: skip


def test_a_condition_that_cannot_be_decided_fails_the_step():
    life = begun([step("a"), step("b", "a", when="a.result > 1")])
    life.does("a", "text")
    assert life.record[-1] == ("b", 0, "failed")
    assert life.status is Status.FAILED


def test_only_what_its_trigger_reaches_runs():
    nodes = [
        {"id": "s", "type": "trigger_schedule"},
        {"id": "e", "type": "trigger_event", "event": "order"},
        step("both", "s", "e"),
        step("ordered", "e"),
        step("always"),
    ]
    life = begun(nodes, args=json.dumps({"workflow": 1}))
    assert set(life.steps) == {"both", "always"}


def test_without_a_matching_trigger_the_run_fails_and_says_so():
    life = begun([{"id": "m", "type": "trigger_manual"}, step("a", "m")])
    assert (life.status, life.runs) == (Status.FAILED, [OutcomeKind.FAILED])
    assert "No matching trigger" in life.executions[-1].error


def test_a_workflow_that_is_not_there_fails_the_run():
    life = FlowLife(LINE, at=NOW, max_retries=0)
    life.flaw = "No matching trigger: there is no workflow 1."
    life.begin()
    assert (life.executions[-1].error, life.status) == (life.flaw, Status.FAILED)


def test_a_workflow_whose_steps_are_all_skipped_completes_at_once():
    life = begun([step("a", when="payload.x")])
    assert (life.status, life.record) == (Status.COMPLETED, [])


# -- failures


def test_a_failed_step_fails_the_run_when_the_other_branches_have_ended():
    life = begun([*DIAMOND, step("e", "c")])
    life.does("a")
    life.does("b", FAILURE)
    assert life.status is Status.RUNNING
    life.does("c")
    life.does("e")
    assert (life.status, life.runs) == (Status.FAILED, [OutcomeKind.FAILED])
    assert life.executions[-1].error == "The step b: ValueError: no"
    states = RunState.read(life.executions[-1].checkpoint).states
    assert (states["b"], states["d"], states["e"]) == ("failed", "blocked", "completed")


def test_a_step_has_the_retries_of_its_node_and_no_others():
    life = begun([step("a", retries=2, retry_delay="10s"), step("b")], max_retries=5)
    life.does("a", FAILURE)
    assert (life.steps["a"].attempt, life.steps["a"].run_at) == (1, NOW + 10 * SECOND)
    assert life.steps["a"].waits_for is WaitsFor.TIME
    life.does("b", FAILURE)
    assert "b" not in life.steps
    life.does("a", FAILURE)
    assert life.steps["a"].run_at == NOW + 20 * SECOND
    life.does("a", FAILURE)
    assert [each for each in life.record if each[0] == "a"] == [("a", n, "failed") for n in range(3)]
    assert life.runs == [OutcomeKind.FAILED]


def test_what_a_task_says_about_retries_holds_for_steps():
    life = begun([step("a", retries=5), step("b", retries=5)])
    life.does("a", Failed(Error("Busy", "later"), retry_in=MINUTE))
    assert life.steps["a"].run_at == NOW + MINUTE
    life.does("b", Failed(Error("GiveUp", "gone"), final=True))
    assert set(life.steps) == {"a"}


def test_a_timed_out_step_is_a_failed_one():
    life = begun([step("a")])
    life.does("a", TimedOut(5 * SECOND))
    assert life.record == [("a", 0, "timed_out")]
    assert life.status is Status.FAILED


def test_a_lost_step_comes_back_and_the_third_loss_fails_it():
    life = begun()
    life.does("a", Lost())
    assert (life.steps["a"].attempt, life.steps["a"].losses, life.steps["a"].waits_for) == (1, 1, None)
    life.does("a", Lost())
    assert life.steps["a"].waits_for is WaitsFor.TIME
    life.does("a", Lost())
    assert life.status is Status.FAILED


def test_work_that_must_not_repeat_fails_with_its_first_loss():
    life = begun(on_lost=OnLost.FAIL)
    life.does("a", Lost())
    assert life.status is Status.FAILED


@pytest.mark.parametrize("outcome", [Interrupted(), Deferred(NOW + HOUR)])
def test_a_released_step_is_queued_again_with_nothing_spent(outcome):
    life = begun()
    claimed = life.start(life.steps["a"])
    life.settle(outcome, claimed)
    again = life.steps["a"]
    assert (again.attempt, again.failures, again.losses, again.releases) == (0, 0, 0, 1)
    assert again.fence > claimed.fence
    assert again.waits_for is (WaitsFor.TIME if isinstance(outcome, Deferred) else None)
    assert life.record == []


# -- whatever happens

OUTCOMES = [Completed(), Completed('{"n": 1}'), FAILURE, TimedOut(SECOND), Lost(), Interrupted()]


@given(st.data())
@settings(max_examples=150)
def test_whatever_the_steps_come_to_each_completes_at_most_once_and_in_order(data):
    """Random graphs, outcomes and commands: the run ends, once, and nothing runs before what it comes after."""
    count = data.draw(st.integers(1, 5))
    nodes = [
        step(f"s{i}", *data.draw(st.sets(st.sampled_from([f"s{j}" for j in range(i)]), max_size=3)) if i else (),
             retries=data.draw(st.integers(0, 1)))
        for i in range(count)
    ]  # fmt: skip
    life = FlowLife(nodes, at=NOW, max_retries=data.draw(st.integers(0, 2)))
    completed: list[str] = []
    for _ in range(60):
        if not life.rows:
            break
        life.advance(HOUR)
        waiting = [live for live in life.rows if live.step] or [None]
        live = data.draw(st.sampled_from(waiting))
        if live is None:
            life.begin()
            continue
        outcome = data.draw(st.sampled_from(OUTCOMES))
        after = next(node["after"] for node in nodes if node["id"] == live.step)
        assert set(after) <= set(completed)
        life.does(live.step, outcome)
        if isinstance(outcome, Completed):
            assert live.step not in completed
            completed.append(live.step)
        if data.draw(st.integers(0, 30)) == 0 and life.rows:
            life.cancel()
            for running in [each for each in life.rows if each.worker_id]:
                life.settle(Cancelled(), running)
    keys = [(each.number, each.step, each.attempt) for each in [*life.executions, *life.rows]]
    assert len(keys) == len(set(keys))
    whole = [each for each in life.executions if not each.step]
    facts = life.facts
    assert len(whole) == facts.completed + facts.failed + facts.timed_out + facts.cancelled + facts.lost
    if life.status is Status.COMPLETED:
        assert sorted(completed) == sorted(node["id"] for node in nodes)
    assert facts.last_execution_number == len(whole) + len([r for r in life.rows if not r.step])


def test_the_wait_of_a_second_loss_is_spread():
    life = begun()
    life.does("a", Lost())
    life.does("a", Lost())
    assert timedelta(seconds=30) <= life.steps["a"].run_at - NOW <= timedelta(seconds=90)
