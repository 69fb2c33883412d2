"""Workflows on both databases: queued, recorded, lost and stopped steps."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from ostinato.chance import RandomChance
from ostinato.core.errors import Conflict
from ostinato.core.model import Finished, Status
from ostinato.core.outcome import Begun, Completed, Error, Failed, Interrupted, Lost, OutcomeKind
from ostinato.feature import Features, our_features
from ostinato.features.workflows.rows import NewWorkflow, Workflows
from ostinato.store.database import open_database
from ostinato.store.history import Keep
from ostinato.store.settling import Settled
from ostinato.store.store import Store
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.store.conftest import DONE, FAILURE, together

NODES = [
    {"id": "a", "task": "work", "timeout": "7s"},
    {"id": "b", "task": "work", "after": ["a"], "args": {"n": {"$ref": "a.result.n"}}},
    {"id": "c", "task": "work", "after": ["a"]},
    {"id": "d", "task": "work", "after": ["b", "c"]},
]
TASKS = ("work", "workflow")
FIVE = Completed('{"n": 5}')


class Flows:
    """Workflows in a world, driven as workers do."""

    def __init__(self, world):
        self.world, self.store = world, world.store
        self.me = world.worker(*TASKS)

    def make(self, nodes=NODES, name="flow"):
        return self.store.part(Workflows).add(NewWorkflow(name, json.dumps(nodes)), NOW, "me")

    def start(self, **given):
        """Start a run."""
        self.make()
        return self.begin(**given)

    def begin(self, **given):
        wanted = {"task": "workflow", "args": '{"workflow": "flow"}', "max_retries": 0, "at": self.world.now}
        job_id = self.world.add_one(**wanted | given)
        self.world.settle(self.claim(), Begun())
        return job_id

    def claim(self, limit=100):
        return self.world.claim(self.me, *TASKS, limit=limit)

    def turn(self, *outcomes):
        """Claim all steps and settle them: with this outcome for all, or with one for each by the name of its step."""
        claimed = self.claim()
        outcome = outcomes[0] if outcomes else DONE
        self.world.settle(claimed, outcome)
        return sorted(each.live.step for each in claimed)

    def record(self, job_id):
        return sorted((e.step, e.attempt, e.outcome.value) for e in self.world.history(job_id))


@pytest.fixture
def flows(world):
    return Flows(world)


def test_steps_are_claimed_settled_and_recorded_one_by_one(world, flows):
    job_id = flows.start()
    assert world.status(job_id) is Status.RUNNING
    assert flows.turn(Completed('{"n": 5}')) == ["a"]
    assert flows.turn() == ["b", "c"]
    world.check()
    assert flows.turn() == ["d"]
    assert world.status(job_id) is Status.COMPLETED
    assert flows.record(job_id) == [("", 0, "completed")] + [(name, 0, "completed") for name in "abcd"]
    args = {each.step: each.args for each in world.history(job_id)}
    assert json.loads(args["b"]) == {"n": 5}
    world.check()


def test_a_step_runs_by_what_its_node_says(world, flows):
    flows.start(timeout=MINUTE)
    (a,) = flows.claim()
    assert (a.definition.policies.timeout, a.definition.policies.max_retries) == (7 * SECOND, 0)
    world.settle([a], FIVE)
    world.advance(20 * SECOND)
    b, c = flows.claim()
    assert {b.definition.policies.timeout, c.definition.policies.timeout} == {40 * SECOND}


def test_two_branches_settle_in_one_batch_or_at_once_on_two_workers(world, flows):
    job_id = flows.start()
    flows.turn(Completed('{"n": 1}'))
    b, c = flows.claim()
    other = world.another()
    together(
        lambda: world.store.queue.settle([Finished(b.live, DONE, world.now)]),
        lambda: other.queue.settle([Finished(c.live, DONE, world.now)]),
    )
    assert flows.turn() == ["d"]
    assert world.status(job_id) is Status.COMPLETED
    world.check()


def test_a_settle_whose_answer_was_lost_is_repeated_safely(world, flows):
    job_id = flows.start()
    claimed = flows.claim()
    world.settle(claimed, FIVE)
    assert world.settle(claimed, FIVE).refused == ()
    assert flows.turn() == ["b", "c"]
    assert flows.record(job_id)[0] == ("a", 0, "completed")
    world.check()


def test_the_fence_covers_steps(world, flows):
    job_id = flows.start()
    (claimed,) = flows.claim()
    world.settle([claimed], Lost())
    assert world.settle([claimed]).refused != ()
    (again,) = flows.claim()
    assert (again.live.step, again.live.attempt) == ("a", 1)
    world.settle([again], Completed('{"n": 1}'))
    assert [each for each in flows.record(job_id) if each[0] == "a"] == [
        ("a", 0, "lost"),
        ("a", 1, "completed"),
    ]
    world.check()


def test_begun_twice_changes_nothing(world, flows):
    flows.make()
    job_id = world.add_one(task="workflow", args='{"workflow": 1}', at=NOW, max_retries=0)
    claimed = flows.claim()
    world.settle(claimed, Begun())
    world.settle(claimed, Begun())
    assert [live.step for live in world.lives(job_id) if live.step] == ["a"]
    assert world.events("result.refused") == []


def test_the_work_of_a_dead_worker_goes_on_from_the_first_unfinished_step(world, flows):
    job_id = flows.start()
    flows.turn(Completed('{"n": 1}'))
    flows.claim()
    seen = next(lease for lease in world.store.workers.leases() if lease.worker_id == flows.me)
    world.advance(MINUTE)
    world.store.workers.close_lost(seen, world.now)
    flows.me = world.worker(*TASKS)
    assert flows.turn() == ["b", "c"]
    assert flows.turn() == ["d"]
    assert world.status(job_id) is Status.COMPLETED
    assert [each for each in flows.record(job_id) if each[2] == "lost"] == [
        ("b", 0, "lost"),
        ("c", 0, "lost"),
    ]
    world.check()


def test_a_worker_that_stops_hands_its_steps_back(world, flows):
    job_id = flows.start()
    flows.claim()
    world.store.workers.leave(flows.me, world.now)
    (step,) = [live for live in world.lives(job_id) if live.step]
    assert (step.worker_id, step.attempt, step.releases) == (None, 0, 1)
    flows.me = world.worker(*TASKS)
    assert flows.turn() == ["a"]


def test_a_step_whose_task_nobody_knows_waits(world, flows):
    flows.make([{"id": "a", "task": "strange"}])
    job_id = flows.begin()
    assert flows.claim() == []
    assert [live.waits_for for live in world.lives(job_id) if live.step] == ["task"]
    assert [live.step for live in (each.live for each in world.claim(flows.me, *TASKS, "strange"))] == ["a"]


def test_a_failed_workflow_is_retried_from_the_failed_step(world, flows):
    job_id = flows.start()
    flows.turn(Completed('{"n": 1}'))
    flows.turn(FAILURE)
    assert world.status(job_id) is Status.FAILED
    world.command(job_id, "retry")
    world.settle(flows.claim(), Begun())
    assert flows.turn() == ["b", "c"]
    assert flows.turn() == ["d"]
    assert world.status(job_id) is Status.COMPLETED
    assert [each for each in flows.record(job_id) if each[0] in "ab" and each[0]] == [
        ("a", 0, "completed"), ("b", 0, "failed"), ("b", 1, "completed")
    ]  # fmt: skip
    world.check()


def test_an_edit_does_not_touch_a_run_in_progress(world, flows):
    job_id = flows.start()
    row = world.store.part(Workflows).get("flow")
    changed = NewWorkflow("flow", json.dumps([{"id": "x", "task": "work"}]))
    assert world.store.part(Workflows).put(row.id, changed, NOW, "me").version == 2
    assert [flows.turn(Completed('{"n": 1}')), flows.turn(), flows.turn()] == [["a"], ["b", "c"], ["d"]]
    assert world.status(job_id) is Status.COMPLETED
    flows.begin()
    assert flows.turn() == ["x"]


def test_a_deleted_workflow_lets_its_runs_finish_and_begins_no_other(world, flows):
    job_id = flows.start()
    world.store.part(Workflows).delete(1, NOW, "me")
    assert [flows.turn(Completed('{"n": 1}')), flows.turn(), flows.turn()] == [["a"], ["b", "c"], ["d"]]
    assert world.status(job_id) is Status.COMPLETED
    other = flows.begin()
    assert world.history(other)[0].error == "No matching trigger: there is no workflow 'flow'."


def test_an_inactive_workflow_begins_nothing(world, flows):
    flows.make()
    world.store.part(Workflows).put(1, replace(NewWorkflow("flow", json.dumps(NODES)), active=False), NOW, "me")
    assert "is not active" in world.history(flows.begin())[0].error


@pytest.mark.parametrize("command", ["cancel", "delete"])
def test_what_stops_the_job_stops_its_steps(world, flows, command):
    job_id = flows.start()
    (claimed,) = flows.claim()
    world.command(job_id, command)
    assert world.store.queue.marks([claimed.live.id])[claimed.live.id].cancel_asked_at == world.now
    world.settle([claimed], Interrupted())
    assert world.sql("SELECT count(*) FROM {live}") == [(0,)]
    world.check()


def test_a_run_that_waits_for_too_long_has_timed_out(world, flows):
    job_id = flows.start(timeout=MINUTE)
    world.advance(59 * SECOND)
    assert world.store.queue.time_out_runs(world.now) == []
    world.advance(SECOND)
    assert len(world.store.queue.time_out_runs(world.now)) == 1
    assert flows.record(job_id) == [("", 0, "timed_out"), ("a", 0, "cancelled")]
    assert world.store.queue.time_out_runs(world.now) == []
    world.check()


@pytest.fixture
def lacking(world):
    """A process on the same database that has no workflows."""
    features = Features([each for each in our_features() if each.name != "workflows"])
    database = open_database(world.url, durable=False, features=features)
    with closing(Store(database, RandomChance(2))) as store:
        yield store


def test_a_process_without_workflows_leaves_a_run_that_begins(world, flows, lacking):
    flows.make()
    world.add_one(task="workflow", args='{"workflow": "flow"}', at=world.now)
    finished = [Finished(each.live, Begun(), world.now) for each in flows.claim()]
    assert lacking.queue.settle(finished) == Settled(left=tuple(finished))
    assert len(world.store.queue.settle(finished).changes) == 1
    assert flows.turn() == ["a"]


def test_a_process_without_workflows_claims_no_steps(world, flows, lacking):
    flows.start()
    other = world.worker(*TASKS, store=lacking)
    assert world.claim(other, *TASKS, store=lacking) == []
    world.advance(HOUR)
    world.store.queue.time_has_come(world.now, 100)
    assert flows.turn() == ["a"]


def test_a_process_without_workflows_settles_no_steps_and_ends_no_runs(world, flows, lacking):
    job_id = flows.start(timeout=MINUTE)
    finished = [Finished(each.live, FIVE, world.now) for each in flows.claim()]
    assert lacking.queue.settle(finished).left == tuple(finished)
    world.advance(MINUTE)
    assert lacking.queue.time_out_runs(world.now) == []
    assert len(world.store.queue.settle(finished).changes) == 1
    assert len(world.store.queue.time_out_runs(world.now)) == 1
    assert flows.record(job_id)[0] == ("", 0, "timed_out")
    world.check()


def test_steps_go_with_their_runs(world, flows):
    flows.make([{"id": "a", "task": "work"}, {"id": "b", "task": "work", "after": ["a"]}])
    job_id = world.add_one(task="workflow", args='{"workflow": 1}', every=HOUR)
    for _ in range(4):
        world.advance(HOUR)
        world.fire()
        world.settle(flows.claim(), Begun())
        flows.turn()
        flows.turn()
    assert world.facts(job_id).completed == 4
    world.advance(40 * DAY)
    world.store.history.prune(job_id.__class__(int=0), world.now, Keep(executions=2, days=30))
    kept = {(each.number, each.step) for each in world.history(job_id)}
    assert {(4, ""), (4, "a"), (4, "b"), (3, ""), (3, "a"), (3, "b")} <= kept
    assert {number for number, _ in kept} <= {2, 3, 4}
    assert (2, "") not in kept
    world.check()


def test_a_limit_counts_a_run_until_its_steps_have_ended(world, flows):
    flows.make([{"id": "a", "task": "work"}])
    limited = {
        "task": "workflow",
        "args": '{"workflow": 1}',
        "max_concurrency": 1,
        "at": NOW,
        "max_retries": 0,
    }
    world.add(2, **limited)
    world.store.queue.let_through(world.now)
    world.settle(flows.claim(), Begun())
    assert world.store.queue.let_through(world.now).passed == 0
    assert flows.turn() == ["a"]
    assert world.store.queue.let_through(world.now).passed == 1


def test_ids_are_given_once_also_to_those_who_come_together(world):
    stores = [world.store, world.another(), world.another()]
    made = together(
        *(lambda s=store, n=n: s.part(Workflows).add(NewWorkflow(f"w{n}", json.dumps(NODES)), NOW, "").id
          for n, store in enumerate(stores))
    )  # fmt: skip
    assert sorted(made) == [1, 2, 3]


def test_a_name_is_held_once(world, flows):
    flows.make()
    with pytest.raises(Conflict, match="already a workflow"):
        flows.make()


def test_many_steps_of_one_run_in_one_batch(world, flows):
    wide = [{"id": f"s{n}", "task": "work"} for n in range(20)]
    flows.make([*wide, {"id": "end", "task": "work", "after": [each["id"] for each in wide]}])
    job_id = flows.begin()
    assert len(flows.turn()) == 20
    assert flows.turn() == ["end"]
    assert world.status(job_id) is Status.COMPLETED
    assert OutcomeKind.COMPLETED in {each.outcome for each in world.history(job_id)}
    world.check()


def test_one_branch_fails_and_the_other_goes_on_in_one_batch(world, flows):
    job_id = flows.start()
    flows.turn(Completed('{"n": 1}'))
    b, c = sorted(flows.claim(), key=lambda each: each.live.step)
    no = Failed(Error("ValueError", "no"))
    world.store.queue.settle([Finished(b.live, no, world.now), Finished(c.live, DONE, world.now)])
    assert world.status(job_id) is Status.FAILED
    (run,) = [each for each in world.history(job_id) if not each.step]
    assert run.error == "The step b: ValueError: no"
    world.check()
