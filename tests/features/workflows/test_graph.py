"""A workflow is read whole or refused with the place."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import Invalid
from ostinato.features.workflows.rules import Trigger, TriggerKind, matching_trigger, read_graph

TRIGGER = {"id": "t", "type": "trigger_schedule"}


def step(name, *after, **fields):
    return {"id": name, "task": "note", "after": list(after), **fields}


def test_the_workflow_of_the_issue_is_read():
    graph = read_graph([TRIGGER, {"id": "n", "task": "note", "after": ["t"]}])
    assert graph.triggers == (Trigger("t", TriggerKind.SCHEDULE),)
    assert [(each.id, each.task, each.after) for each in graph.steps] == [("n", "note", ("t",))]


def test_all_that_a_step_may_say():
    (each,) = read_graph(
        [step("n", args={"a": [1]}, retries=2, retry_delay="10s", timeout="5m", when="payload.x > 1")]
    ).steps
    assert (each.args, each.retries, each.retry_delay, each.timeout) == (
        {"a": [1]},
        2,
        timedelta(seconds=10),
        timedelta(minutes=5),
    )
    assert each.when is not None


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        ("nodes", "nodes: a workflow needs a list"),
        ([], "nodes: a workflow needs a list"),
        ([TRIGGER], "nodes: a workflow of triggers alone"),
        ([1], "nodes[0]: a node is an object"),
        ([{"task": "x"}], "nodes[0].id"),
        ([{"id": "a b", "task": "x"}], "nodes[0].id"),
        ([step("payload")], "nodes[0].id: 'payload' is reserved"),
        ([step("a"), step("a")], "nodes[1].id: there are two nodes 'a', here and at nodes[0]"),
        ([{"id": "a"}], "nodes[0].type"),
        ([{"id": "a", "type": "trigger_cron"}], "nodes[0].type"),
        ([{"id": "a", "type": "trigger_event"}], "nodes[0].event"),
        ([{"id": "a", "type": "trigger_event", "event": "manual"}], "nodes[0].event"),
        ([{"id": "a", "type": "trigger_manual", "event": "x"}], "nodes[0].event"),
        ([{"id": "a", "type": "trigger_manual", "task": "x"}], "nodes[0]: there is no field 'task'"),
        ([step("a", retrys=1)], "nodes[0]: there is no field 'retrys'; did you mean retries?"),
        ([step("a", task="")], "nodes[0].task"),
        ([step("a", task="workflow")], "nodes[0].task: a workflow cannot"),
        ([step("a", args=[1])], "nodes[0].args"),
        ([step("a", after=1)], "nodes[0].after"),
        ([step("a", retries=-1)], "nodes[0].retries"),
        ([step("a", retries=True)], "nodes[0].retries"),
        ([step("a", timeout="soon")], "nodes[0].timeout"),
        ([step("a", timeout=0)], "nodes[0].timeout"),
        ([step("a", when="1 +")], "nodes[0].when"),
        ([step("a", when="b.result > 1")], "nodes[0].when: there is no node 'b'"),
        ([step("a"), step("b", "extrakt"), step("extract")], "nodes[1].after[0]: there is no node 'extrakt'; did"),
        ([step("a", "a")], "nodes[0].after: these wait for each other: a after a."),
        ([step("a", "b"), step("b", "c"), step("c", "a")], "these wait for each other: a after b after c after a."),
        ([step("a", args={"x": {"$ref": "b.result"}})], "nodes[0].args.x: there is no node 'b'"),
        ([step("a", args={"x": [{"$ref": 1}]})], "nodes[0].args.x[0]: a reference is text"),
        ([step("a", args={"x": {"$ref": "a..b"}})], "nodes[0].args.x: 'a..b' is not a reference"),
        ([step("b"), step("a", args={"x": {"$ref": "b.result"}})], "nodes[1].args.x: 'b' may not have ended"),
        ([step("b"), step("a", "b", args={"x": {"$ref": "b.count"}})], "nodes[1].args.x: of a step there is"),
        ([TRIGGER, step("a", "t", args={"x": {"$ref": "t.x"}})], "nodes[1].args.x: of a trigger there is"),
        ([step("a", args={"x": float("nan")})], "nodes[0].args.x is nan"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_the_place(nodes, where):
    with pytest.raises(Invalid) as refused:
        read_graph(nodes)
    assert where in str(refused.value)


def test_a_step_may_refer_to_what_comes_before_it_through_others():
    nodes = [TRIGGER, step("a", "t"), step("b", "a"), step("c", "b", args={"x": {"$ref": "a.result.0.y"}})]
    assert {ref.text for ref in read_graph(nodes).references["a"]} == {"a.result.0.y"}


PLACES = st.integers(0, 5)


@given(st.sets(st.tuples(PLACES, PLACES), max_size=12))
def test_a_graph_is_refused_exactly_when_it_has_a_circle(edges):
    count = 6
    nodes = [step(f"s{i}", *(f"s{b}" for a, b in edges if a == i)) for i in range(count)]

    def reaches(start):
        seen, to_see = set(), [b for a, b in edges if a == start]
        while to_see:
            one = to_see.pop()
            if one not in seen:
                seen.add(one)
                to_see += [b for a, b in edges if a == one]
        return seen

    circle = any(i in reaches(i) for i in range(count))
    try:
        ordered = [each.id for each in read_graph(nodes).steps]
    except Invalid:
        assert circle
    else:
        assert not circle
        assert all(ordered.index(f"s{b}") < ordered.index(f"s{a}") for a, b in edges)


# -- triggers


MANY = read_graph(
    [
        {"id": "s", "type": "trigger_schedule"},
        {"id": "e", "type": "trigger_event", "event": "order"},
        step("n", "s", "e"),
    ]
)


@pytest.mark.parametrize(
    ("event", "trigger", "found"),
    [("schedule", None, "s"), ("order", None, "e"), ("manual", None, "s"), ("manual", "e", "e")],
)
def test_the_trigger_that_matches(event, trigger, found):
    assert matching_trigger(MANY, "many", event, trigger) == found


@pytest.mark.parametrize(("event", "trigger"), [("refund", None), ("schedule", "n"), ("schedule", "x")])
def test_no_trigger_that_matches_is_said_so(event, trigger):
    with pytest.raises(Invalid, match="No matching trigger"):
        matching_trigger(MANY, "many", event, trigger)


def test_a_workflow_without_triggers_may_be_started_by_anything():
    assert matching_trigger(read_graph([step("n")]), "plain", "schedule") is None
