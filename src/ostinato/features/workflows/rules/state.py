"""The origin of a workflow's run, and its progress.

Of the steps' results it holds only the parts that other nodes refer to; history has the results themselves.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.payload import decode, encode
from ostinato.features.workflows.rules.graph import Graph, Trigger, TriggerKind


class StepState(StrEnum):
    """The state of a node. A node without one waits, or is live."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # its condition was false, or all steps before it were skipped
    BLOCKED = "blocked"  # a step before it did not complete


@dataclass(slots=True)
class RunState:
    """One run under way. A rule changes only the copy that it has read."""

    workflow: int
    version: int
    name: str = ""
    states: dict[str, StepState] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # by the text of the reference
    attempts: dict[str, int] = field(default_factory=dict)  # the last one of each step
    errors: dict[str, str] = field(default_factory=dict)  # why steps failed, for the run's own message
    timed_out: bool = False  # its steps were asked to stop

    @classmethod
    def read(cls, text: str | None) -> "RunState | None":
        """Read the state from a checkpoint; None for a run that has not begun, or begins anew."""
        kept = {} if text is None else decode(text, "checkpoint")
        if "workflow" not in kept:
            return None
        states = {name: StepState(state) for name, state in kept.pop("states", {}).items()}
        return cls(states=states, **kept)

    def write(self) -> str:
        kept: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: each for name, each in kept.items() if each}, ensure_ascii=False)


def attempts_of(text: str | None) -> Mapping[str, int]:
    """Return the last attempt of each step, also of a run that begins anew: numbers never repeat."""
    return {} if text is None else decode(text, "checkpoint").get("attempts", {})


def begun_anew(text: str | None) -> str | None:
    """Return the checkpoint of a run that begins again from the start."""
    attempts = attempts_of(text)
    return encode({"attempts": attempts}, "checkpoint") if attempts else None


# -- The origin of a workflow's run: the args of a job with the task `workflow`.
#
#     {"workflow": 3, "trigger": "nightly", "payload": {"region": "eu"}, "event": "schedule"}
#
# `workflow` is an id or a name. `event` is the cause of the run: `schedule` (the default), `manual`, or the kind of an
# event. `trigger` names one trigger node; by default the first that matches is used.

WORKFLOW_TASK: Final = "workflow"
SCHEDULE: Final = "schedule"
MANUAL: Final = "manual"
FIELDS: Final = ("workflow", "trigger", "payload", "event")
LARGEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The workflow, trigger and payload of a run."""

    workflow: int | str
    trigger: str | None = None
    payload: Any = None
    event: str = SCHEDULE

    @classmethod
    def read(cls, args: str) -> "Origin":
        """Read the origin from the args of a job or of an execution."""
        return cls.of(decode(args))

    @classmethod
    def of(cls, given: Any) -> "Origin":
        if not isinstance(given, dict) or "workflow" not in given:
            raise Invalid("args.workflow: say which workflow to run, by its id or name.")
        for name in given:
            if name not in FIELDS:
                raise Invalid(f"args: there is no field {name[:100]!r}; there are {', '.join(FIELDS)}.")
        workflow, trigger, event = given["workflow"], given.get("trigger"), given.get("event", SCHEDULE)
        if isinstance(workflow, bool) or not isinstance(workflow, int | str):
            raise Invalid("args.workflow: the id or the name of a workflow.")
        if isinstance(workflow, int) and not 0 < workflow <= LARGEST_ID:
            raise Invalid("args.workflow: ids of workflows are numbers from 1.")
        if trigger is not None and not isinstance(trigger, str):
            raise Invalid("args.trigger: the id of a trigger node.")
        if not isinstance(event, str) or not event:
            raise Invalid("args.event: schedule, manual, or the kind of an event.")
        payload = given.get("payload")
        return cls(workflow, trigger, {} if payload is None else payload, event)

    def args(self) -> dict[str, Any]:
        """Write the origin as the args of a job, without defaults."""
        said: dict[str, Any] = {"workflow": self.workflow}
        if self.trigger is not None:
            said["trigger"] = self.trigger
        if self.payload:
            said["payload"] = self.payload
        if self.event != SCHEDULE:
            said["event"] = self.event
        return said


def matching_trigger(graph: Graph, name: str, event: str, trigger: str | None = None) -> str | None:
    """Return the trigger node for an event; None for a workflow without triggers. Invalid if none matches."""
    if trigger is not None:
        if any(each.id == trigger for each in graph.triggers):
            return trigger
        raise Invalid(f"No matching trigger: the workflow {name!r} has no trigger node {trigger!r}.")
    if not graph.triggers:
        return None
    found = next((each for each in graph.triggers if answers(each, event)), None)
    if found is None and event == MANUAL:
        found = graph.triggers[0]  # a person may run anything
    if found is None:
        wanted = f"trigger_{event}" if event == SCHEDULE else f"trigger_event for {event!r}"
        raise Invalid(f"No matching trigger: the workflow {name!r} has no {wanted}.")
    return found.id


def answers(trigger: Trigger, event: str) -> bool:
    """Return True if a trigger node waits for this event."""
    match trigger.kind:
        case TriggerKind.SCHEDULE:
            return event == SCHEDULE
        case TriggerKind.MANUAL:
            return event == MANUAL
        case TriggerKind.EVENT:
            return event == trigger.event
