"""A workflow: a graph of nodes, as it is written and as it is checked.

    {"id": "t", "type": "trigger_schedule"}                                         a trigger
    {"id": "n", "task": "note", "args": {…}, "after": ["t"], "retries": 2, "timeout": "5m", "when": "…"}   a step

Invalid names the place of an error. A node may refer only to steps that have ended when it begins: the steps before it
by `after`, directly or through others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.payload import LONGEST_BY_FIELD, LONGEST_WAIT, as_whole, check_json, encode, is_storable
from ostinato.core.times import parse_duration
from ostinato.features.workflows.rules.condition import (
    NAME,
    PAYLOAD,
    RESULT,
    TRIGGER,
    Condition,
    StepReference,
    read_condition,
    references_in,
    references_of,
)

MOST_NODES: Final = 500
MOST_RETRIES: Final = 1_000_000
LONGEST_EVENT: Final = 100
RESERVED: Final = (PAYLOAD, TRIGGER)


class TriggerKind(StrEnum):
    """The kinds of triggers."""

    SCHEDULE = "trigger_schedule"
    MANUAL = "trigger_manual"
    EVENT = "trigger_event"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A node that starts a run. `event` is the kind of event that a trigger_event waits for."""

    id: str
    kind: TriggerKind
    event: str = ""


@dataclass(frozen=True, slots=True)
class GraphStep:
    """A node that runs a task."""

    id: str
    task: str
    args: Mapping[str, Any]
    after: tuple[str, ...] = ()
    retries: int = 0
    retry_delay: timedelta | None = None  # doubled each time, at most an hour
    timeout: timedelta | None = None
    when: Condition | None = None


@dataclass(frozen=True)
class Graph:
    """The nodes of a workflow, checked, each step after those it comes after."""

    triggers: tuple[Trigger, ...]
    steps: tuple[GraphStep, ...]

    @cached_property
    def step(self) -> Mapping[str, GraphStep]:
        """Steps by id."""
        return {step.id: step for step in self.steps}

    @cached_property
    def references(self) -> Mapping[str, tuple[StepReference, ...]]:
        """References to each node's values."""
        found: dict[str, dict[str, StepReference]] = {}
        for step in self.steps:
            for _, reference in _references(step, ""):
                found.setdefault(reference.root, {})[reference.text] = reference
        return {root: tuple(each.values()) for root, each in found.items()}


def read_graph(nodes: object) -> Graph:
    """Read a graph from a list of nodes; Invalid names the place of the first error."""
    if not isinstance(nodes, list) or not nodes:
        raise Invalid("nodes: a workflow needs a list of nodes, at least one.")
    if len(nodes) > MOST_NODES:
        raise Invalid(f"nodes: a workflow has at most {MOST_NODES} nodes, not {len(nodes)}.")
    check_json(nodes, "nodes")
    encode(nodes, "nodes")
    places: dict[str, str] = {}
    read = [_node(node, f"nodes[{index}]", places) for index, node in enumerate(nodes)]
    steps = {node.id: node for node in read if isinstance(node, GraphStep)}
    triggers = tuple(node for node in read if isinstance(node, Trigger))
    if not steps:
        raise Invalid("nodes: a workflow of triggers alone does nothing; add a node with a task.")
    for step in steps.values():
        _check_after(step, places)
    ordered = _ordered(steps, places)
    before = _all_before(ordered)
    for step in ordered:
        _check_references(step, places, steps.keys(), {each.id for each in triggers}, before[step.id])
    return Graph(triggers, ordered)


def place_of(nodes: Sequence[Mapping[str, Any]], step: str) -> str:
    """Return the place of a node, for a sentence about it."""
    return next(f"nodes[{index}]" for index, node in enumerate(nodes) if node.get("id") == step)


# -- one node


TRIGGER_FIELDS: Final = ("id", "type", "event")
STEP_FIELDS: Final = ("id", "type", "task", "args", "after", "retries", "retry_delay", "timeout", "when")
TYPES: Final = (*TriggerKind, "task")


def _node(node: object, place: str, places: dict[str, str]) -> GraphStep | Trigger:
    if not isinstance(node, dict):
        raise Invalid(f"{place}: a node is an object with an id.")
    name = node.get("id")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Invalid(f"{place}.id: a node needs an id of letters, digits, _ and -, such as 'extract'.")
    if name in RESERVED:
        raise Invalid(f"{place}.id: {name!r} is reserved for the trigger; give the node another id.")
    if name in places:
        raise Invalid(f"{place}.id: there are two nodes {name!r}, here and at {places[name]}.")
    places[name] = place
    kind = node.get("type", "task" if "task" in node else None)
    if kind not in TYPES:
        raise Invalid(f"{place}.type: a node has a task, or one of the types {', '.join(TriggerKind)}.")
    _check_fields(node, place, STEP_FIELDS if kind == "task" else TRIGGER_FIELDS)
    return _step(node, place) if kind == "task" else _trigger(node, TriggerKind(str(kind)), place)


def _check_fields(node: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
    for name in node:
        if name not in known:
            close = get_close_matches(str(name)[:100], known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}."
            raise Invalid(f"{place}: there is no field {str(name)[:100]!r}{hint}")


def _trigger(node: Mapping[str, Any], kind: TriggerKind, place: str) -> Trigger:
    event = node.get("event", "")
    wanted = kind is TriggerKind.EVENT
    if not isinstance(event, str) or len(event) > LONGEST_EVENT or (wanted and not event.strip()):
        raise Invalid(f"{place}.event: a trigger_event says the kind of event it waits for, such as 'order'.")
    if event and not wanted:
        raise Invalid(f"{place}.event: only a trigger_event waits for an event.")
    if event in ("schedule", "manual"):
        raise Invalid(f"{place}.event: {event!r} needs a trigger of the type trigger_{event}.")
    return Trigger(node["id"], kind, event)


def _step(node: Mapping[str, Any], place: str) -> GraphStep:
    task, args, after = node.get("task"), node.get("args", {}), node.get("after", [])
    if not isinstance(task, str) or not 0 < len(task) <= LONGEST_BY_FIELD["task"] or not is_storable(task):
        raise Invalid(f"{place}.task: a node needs the name of a task.")
    if task == "workflow":
        raise Invalid(f"{place}.task: a workflow cannot be a step of a workflow.")
    if not isinstance(args, dict):
        raise Invalid(f"{place}.args: args are an object, by the names of the task's parameters.")
    if isinstance(after, str):
        after = [after]
    if not isinstance(after, list) or not all(isinstance(each, str) for each in after):
        raise Invalid(f"{place}.after: a list of the ids of other nodes.")
    when = node.get("when")
    return GraphStep(
        node["id"],
        task,
        args,
        tuple(dict.fromkeys(after)),
        _retries(node.get("retries", 0), place),
        _span(node.get("retry_delay"), f"{place}.retry_delay"),
        _span(node.get("timeout"), f"{place}.timeout"),
        None if when is None else read_condition(when, f"{place}.when"),
    )


def _retries(value: object, place: str) -> int:
    value = as_whole(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_RETRIES:
        raise Invalid(f"{place}.retries: a number from 0 to {MOST_RETRIES:,}.")
    return value


def _span(value: object, place: str) -> timedelta | None:
    if value is None:
        return None
    try:
        span = parse_duration(value)  # type: ignore[arg-type]  # it refuses other types
    except Invalid as error:
        raise Invalid(f"{place}: {error}") from None
    if not timedelta(0) < span <= LONGEST_WAIT:
        raise Invalid(f"{place}: must be longer than 0 s and at most ten years.")
    return span


# -- the whole graph


def _check_after(step: GraphStep, places: Mapping[str, str]) -> None:
    for index, name in enumerate(step.after):
        if name not in places:
            close = get_close_matches(name[:100], places, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise Invalid(f"{places[step.id]}.after[{index}]: there is no node {name[:100]!r}{hint}")


def _ordered(steps: Mapping[str, GraphStep], places: Mapping[str, str]) -> tuple[GraphStep, ...]:
    """Sort the steps by `after`; Invalid names all steps of a circle."""
    done: dict[str, GraphStep] = {}
    left = dict(steps)
    while left:
        ready = [s for s in left.values() if all(each in done or each not in steps for each in s.after)]
        if not ready:
            circle = _circle(left)
            way = " after ".join(circle)
            raise Invalid(f"{places[circle[0]]}.after: these wait for each other: {way}.")
        for step in ready:
            done[step.id] = left.pop(step.id)
    return tuple(done.values())


def _circle(left: Mapping[str, GraphStep]) -> list[str]:
    name, way = next(iter(left)), list[str]()
    while name not in way:
        way.append(name)
        name = next(each for each in left[name].after if each in left)
    return [*way[way.index(name) :], name]


def _all_before(ordered: Sequence[GraphStep]) -> dict[str, set[str]]:
    before: dict[str, set[str]] = {}
    for step in ordered:
        before[step.id] = set(step.after).union(*(before.get(each, set()) for each in step.after))
    return before


def _references(step: GraphStep, place: str) -> Iterator[tuple[str, StepReference]]:
    yield from references_in(dict(step.args), f"{place}.args")
    for reference in references_of(step.when) if step.when is not None else ():
        yield f"{place}.when", reference


def _check_references(
    step: GraphStep, places: Mapping[str, str], steps: Any, triggers: set[str], before: set[str]
) -> None:
    for place, reference in _references(step, places[step.id]):
        root, path = reference.root, reference.path
        if root in RESERVED:
            continue
        if root in triggers:
            if path[:1] != (PAYLOAD,):
                raise Invalid(f"{place}: of a trigger there is its payload, as in '{root}.payload'.")
        elif root not in steps:
            close = get_close_matches(root, [*places, PAYLOAD, TRIGGER], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise Invalid(f"{place}: there is no node {root!r} to refer to{hint}")
        elif path[:1] != (RESULT,):
            raise Invalid(f"{place}: of a step there is its result, as in '{root}.result'.")
        elif root not in before:
            raise Invalid(f"{place}: {root!r} may not have ended when {step.id!r} begins; name it in after.")
