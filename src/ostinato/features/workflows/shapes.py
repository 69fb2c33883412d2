"""Shapes of workflows and their runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import ConfigDict, Field, JsonValue, WithJsonSchema

from ostinato.core.arguments import arg, whole
from ostinato.core.payload import LONGEST_BY_FIELD, LONGEST_WAIT
from ostinato.core.times import MICROSECOND
from ostinato.features.workflows.rules.condition import LONGEST_CONDITION, NAME
from ostinato.features.workflows.rules.graph import LONGEST_EVENT, MOST_NODES, MOST_RETRIES, TRIGGER_FIELDS, TriggerKind
from ostinato.features.workflows.service import RunView, StepView, WorkflowView
from ostinato.service import JobView
from ostinato.service.paging import PAGE_LIMIT
from ostinato.shapes.answers import JsonObject, described
from ostinato.shapes.base import RequestBody, Switch, Text
from ostinato.shapes.executions import ExecutionAnswer
from ostinato.shapes.openapi import Shape, either, nullable, pattern, record, span

WAIT: Final = nullable(span(MICROSECOND, LONGEST_WAIT))
ID: Final[Shape] = {"type": "string", "format": "node-id", "pattern": pattern(NAME)}
TRIGGER: Final = record(
    {
        "id": ID,
        "type": {"enum": [TriggerKind.SCHEDULE.value, TriggerKind.MANUAL.value]},
        "event": {"const": ""},
    },
    "id",
    "type",
)
EVENT: Final = record(
    {
        "id": ID,
        "type": {"const": TriggerKind.EVENT.value},
        "event": {
            "type": "string",
            "pattern": r"[^\s\x1c-\x1f\x85]",
            "maxLength": LONGEST_EVENT,
            "not": {"enum": ["schedule", "manual"]},
        },
    },
    *TRIGGER_FIELDS,
)
STEP: Final = record(
    {
        "id": ID,
        "type": {"const": "task"},
        "task": {"type": "string", "format": "task", "minLength": 1, "maxLength": LONGEST_BY_FIELD["task"]},
        "args": {"type": "object"},
        "after": either(ID, {"type": "array", "items": ID}),
        "retries": {"type": "integer", "minimum": 0, "maximum": MOST_RETRIES},
        "retry_delay": WAIT,
        "timeout": WAIT,
        "when": nullable({"type": "string", "format": "condition", "maxLength": LONGEST_CONDITION}),
    },
    "id",
    "task",
)
NODES: Final[Shape] = {
    "type": "array",
    "items": either(TRIGGER, EVENT, STEP),
    "contains": {"required": ["task"]},
    "minItems": 1,
    "maxItems": MOST_NODES,
}

# A name must not be digits only, because that would be an id.
NAMED: Final = Field(min_length=1, max_length=200, json_schema_extra={"format": "printable", "pattern": "[^0-9]"})
Nodes = list[dict[str, Any]]
NewNodes = Annotated[Nodes, WithJsonSchema(NODES)]
STEP_STATES: Final[list[JsonValue]] = [
    "waiting",
    "queued",
    "running",
    "completed",
    "failed",
    "cancelled",
    "skipped",
]


@dataclass(frozen=True, kw_only=True)
class WorkflowQuery:
    """A page of workflows."""

    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of workflows.", 50)
    after: int = arg(whole(0, 2**63 - 1), "The last id of the page before.", 0)


class WorkflowBody(RequestBody):
    """A new workflow. Its nodes are checked together, and errors name the place."""

    name: Annotated[Text, NAMED] = Field(description="Unique among all workflows.")
    nodes: NewNodes = Field(description="Triggers and tasks: docs/guides/workflows.md.")
    description: Text = Field("", max_length=10_000)
    active: Switch = Field(True, description="Whether the workflow may start.")


class WorkflowEdit(RequestBody):
    """Changes to a workflow; other fields do not change."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    name: Annotated[Text, NAMED] | None = None
    nodes: NewNodes | None = Field(None, description="All nodes; they make a new version.")
    description: Text | None = Field(None, max_length=10_000)
    active: Switch | None = None

    read_only = ("id", "version", "declared", "created_at", "updated_at")

    @classmethod
    def _about(cls, name: str) -> str:
        return "" if name in cls.read_only else super()._about(name)


class WorkflowAnswer(JsonObject):
    """A workflow at its newest version."""

    id: int
    name: str
    description: str
    version: int
    active: bool
    declared: bool = described("Whether the code of an app declares it.")
    nodes: Nodes
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, view: WorkflowView) -> Self:
        return cls(
            id=view.id, name=view.name, description=view.description, version=view.version, active=view.active,
            declared=view.declared, nodes=[dict(node) for node in view.nodes], created_at=view.created_at,
            updated_at=view.updated_at,
        )  # fmt: skip


class WorkflowList(JsonObject):
    """Workflows in the order of their creation."""

    workflows: list[WorkflowAnswer]


class WorkflowGone(JsonObject):
    """The answer to a deletion."""

    message: str


class WorkflowRunBody(RequestBody):
    """Options for starting a workflow."""

    payload: dict[str, Any] = Field({}, description="Payload of the trigger; steps refer to it.")
    trigger: Text | None = Field(None, description="The id of the trigger node, if there are several.", max_length=100)


class Started(JsonObject):
    """The job that runs a workflow once."""

    job_id: UUID
    workflow_id: int
    name: str
    status: str

    @classmethod
    def of(cls, view: JobView) -> Self:
        return cls(job_id=view.id, workflow_id=view.args["workflow"], name=view.definition.name, status=view.status)


class TriggeredAnswer(JsonObject):
    """The workflows that an event started."""

    kind: str
    started: list[Started]


class StepAnswer(JsonObject):
    """A step of a run, and its attempts so far."""

    id: str
    task: str
    after: list[str]
    state: str = described(enum=STEP_STATES)
    because: str | None = described("Why the step was skipped.")
    attempts: list[ExecutionAnswer]

    @classmethod
    def of(cls, view: StepView) -> Self:
        return cls(
            id=view.id, task=view.task, after=list(view.after), state=view.state, because=view.because or None,
            attempts=[ExecutionAnswer.of(each) for each in view.attempts],
        )  # fmt: skip


class RunAnswer(JsonObject):
    """A run of a workflow with its steps, in the version of its start."""

    run: ExecutionAnswer
    workflow_id: int | None
    name: str
    version: int | None
    trigger: str | None
    steps: list[StepAnswer]

    @classmethod
    def of(cls, view: RunView) -> Self:
        return cls(
            run=ExecutionAnswer.of(view.run), workflow_id=view.workflow, name=view.name, version=view.version,
            trigger=view.trigger, steps=[StepAnswer.of(step) for step in view.steps],
        )  # fmt: skip
