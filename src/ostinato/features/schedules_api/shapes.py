"""Shapes of schedules in the format of seed 001, which runs workflows.

A schedule is a repeating job with the task `workflow`; `trigger_payload` and `trigger_node_id` come from its args.
The defaults of the seed apply: three retries with a backoff counted in intervals, then the schedule is dead; a run may
take ten minutes. Repeating jobs with another task are shown too, with their args as `trigger_payload`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from ostinato.core.arguments import arg, text, whole
from ostinato.core.model import Definition
from ostinato.core.payload import decode, encode
from ostinato.core.policy import Backoff, Overlap, Policies, WhenExhausted
from ostinato.core.schedule import Every, Schedule
from ostinato.core.times import SECOND
from ostinato.features.schedules_api.service import ScheduleView, Word
from ostinato.features.workflows.rules import WORKFLOW_TASK
from ostinato.service.paging import FURTHEST, PAGE_LIMIT
from ostinato.shapes.answers import JsonObject, field_names
from ostinato.shapes.base import LARGEST, RequestBody, Text, Whole, WrongField
from ostinato.shapes.openapi import never_null
from ostinato.shapes.queries import member

MOST_SECONDS: Final = 315_360_000  # ten years
MOST_TIMES: Final = 1_000_000_000
MOST_BATCH: Final = 1000
CAP: Final = 10  # intervals
DEFAULT_TIMEOUT: Final = 600
NEVER_NULL: Final = frozenset(
    {"name", "description", "workflow_id", "interval_seconds", "total_repeats", "max_retries", "timeout_seconds",
     "trigger_payload"}
)  # fmt: skip


class _Bounds:
    """A check of bounds with the error text of the seed: `interval_seconds must be >= 1`."""

    def __init__(self, name: str, least: int, most: int) -> None:
        self._name, self._least, self._most = name, least, most

    def __call__(self, value: int) -> int:
        if value < self._least:
            raise ValueError(f"{self._name} must be >= {self._least}, not {value}.")
        if value > self._most:
            raise ValueError(f"{self._name} must be <= {self._most}, not {value}.")
        return value


def _within(least: int, most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": least, "maximum": most})


Interval = Annotated[Whole, AfterValidator(_Bounds("interval_seconds", 1, MOST_SECONDS)), _within(1, MOST_SECONDS)]
Repeats = Annotated[Whole, AfterValidator(_Bounds("total_repeats", 0, MOST_TIMES)), _within(0, MOST_TIMES)]
Retries = Annotated[Whole, AfterValidator(_Bounds("max_retries", 0, MOST_TIMES)), _within(0, MOST_TIMES)]
Timeout = Annotated[Whole, AfterValidator(_Bounds("timeout_seconds", 1, MOST_SECONDS)), _within(1, MOST_SECONDS)]
WorkflowId = Annotated[Whole, Field(ge=1, le=LARGEST)] | Annotated[Text, Field(min_length=1, max_length=200)]


class ScheduleAnswer(JsonObject):
    """A schedule with all fields of Pipelit's model."""

    id: UUID
    name: str
    description: str
    workflow_id: int | str | None
    trigger_node_id: str | None
    user_profile_id: str
    interval_seconds: int | None
    total_repeats: int
    max_retries: int
    timeout_seconds: int | None
    trigger_payload: Any
    status: Word
    current_repeat: int
    current_retry: int
    last_run_at: datetime | None
    next_run_at: datetime | None
    run_count: int
    error_count: int
    last_error: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, view: ScheduleView) -> "ScheduleAnswer":
        job, definition, policies = view.job, view.job.definition, view.job.definition.policies
        running = [live.started_at for live in job.lives if live.slot is not None and live.running]
        return cls(
            id=job.id, name=definition.name, description=definition.description, user_profile_id=definition.owner,
            interval_seconds=_seconds(definition.schedule), total_repeats=policies.total_repeats,
            max_retries=policies.max_retries,
            timeout_seconds=None if policies.timeout is None else policies.timeout // SECOND,
            **_workflow(definition), status=view.word, current_repeat=job.facts.repeats_done,
            current_retry=view.current_retry, next_run_at=job.next_run_at, run_count=view.run_count,
            last_run_at=next((at for at in running if at), None if view.last is None else view.last.started_at),
            error_count=view.error_count, last_error=view.last_error, created_at=job.facts.created_at,
            updated_at=job.facts.updated_at,
        )  # fmt: skip


class ScheduleList(JsonObject):
    """A page of schedules, the newest first."""

    items: list[ScheduleAnswer]
    total: int


class ScheduleBody(RequestBody):
    """A new schedule."""

    name: Annotated[Text, Field(min_length=1, max_length=255)]
    workflow_id: WorkflowId = Field(description="The id of a workflow, or its name.")
    interval_seconds: Interval
    description: Text = ""
    trigger_node_id: Text | None = None
    total_repeats: Repeats = Field(0, description="0: no limit.")
    max_retries: Retries = 3
    timeout_seconds: Timeout = DEFAULT_TIMEOUT
    trigger_payload: dict[str, Any] | None = None

    read_only: ClassVar = frozenset(field_names(ScheduleAnswer))

    @property
    def schedule(self) -> Every:
        return every(self.interval_seconds)

    @property
    def policies(self) -> Policies:
        """Return the policies of the new schedule."""
        return Policies(
            total_repeats=self.total_repeats,
            max_retries=self.max_retries,
            backoff=backoff(timedelta(seconds=self.interval_seconds)),
            when_exhausted=WhenExhausted.FAIL,
            timeout=timedelta(seconds=self.timeout_seconds),
            overlap=Overlap.SKIP,
        )


class ScheduleEdit(RequestBody):
    """Changes to a schedule."""

    model_config = ConfigDict(json_schema_extra=never_null(NEVER_NULL))

    name: Annotated[Text, Field(min_length=1, max_length=255)] | None = None
    workflow_id: WorkflowId | None = None
    interval_seconds: Interval | None = None
    description: Text | None = None
    trigger_node_id: Text | None = None
    total_repeats: Repeats | None = None
    max_retries: Retries | None = None
    timeout_seconds: Timeout | None = None
    trigger_payload: dict[str, Any] | None = None

    read_only: ClassVar = frozenset(field_names(ScheduleAnswer))

    def given(self) -> dict[str, Any]:
        """Return the given fields; null is refused where it has no meaning."""
        said = {name: getattr(self, name) for name in self.model_fields_set}
        for name in NEVER_NULL & said.keys():
            if said[name] is None:
                raise WrongField(name, f"{name} cannot be null: leave it out, or say what it should be.")
        return said


@dataclass(frozen=True, kw_only=True)
class ScheduleQuery:
    """A filter of schedules."""

    status: Word | None = arg(member(Word), "Only schedules in this state.", None)
    workflow_id: str | None = arg(text(200), "The id of a workflow, or its name.", None)
    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of schedules.", 50)
    offset: int = arg(whole(0, FURTHEST), "Number of schedules to skip.", 0)


class BatchBody(RequestBody):
    """Schedules to delete, at most 1,000 at once."""

    schedule_ids: Annotated[list[UUID], Field(max_length=MOST_BATCH)]


def every(seconds: int) -> Every:
    return Every.of(f"{seconds}s")


def backoff(interval: timedelta) -> Backoff:
    """Return the backoff `min(interval · 2^(n-1), 10 · interval)` after the n-th failure in a row."""
    return Backoff(base=interval, cap=CAP * interval)


def edited(definition: Definition, said: Mapping[str, Any]) -> Definition:
    """Return the definition with the changes, except the workflow and its trigger: the service has set those."""
    given = {name: said[name] for name in ("name", "description") if name in said}
    policies = definition.policies
    if "interval_seconds" in said:
        given["schedule"] = every(said["interval_seconds"])
        policies = replace(policies, backoff=_following(definition, said["interval_seconds"]))
    for name in ("total_repeats", "max_retries"):
        if name in said:
            policies = replace(policies, **{name: said[name]})
    if "timeout_seconds" in said:
        policies = replace(policies, timeout=timedelta(seconds=said["timeout_seconds"]))
    if "trigger_payload" in said and definition.task != WORKFLOW_TASK:
        given["args"] = encode(said["trigger_payload"], "trigger_payload")
    return replace(definition, policies=policies, **given)


def _following(definition: Definition, seconds: int) -> Backoff:
    """Return the backoff for a new interval: a backoff counted in intervals follows it, any other stays."""
    before, schedule = definition.policies.backoff, definition.schedule
    counted = isinstance(schedule, Every) and before == backoff(schedule.period)
    return backoff(timedelta(seconds=seconds)) if counted else before


def _seconds(schedule: Schedule) -> int | None:
    return schedule.period // SECOND if isinstance(schedule, Every) else None


def _workflow(definition: Definition) -> dict[str, Any]:
    args = decode(definition.args)
    if definition.task != WORKFLOW_TASK:
        return {"workflow_id": None, "trigger_node_id": None, "trigger_payload": args}
    return {
        "workflow_id": args.get("workflow"),
        "trigger_node_id": args.get("trigger"),
        "trigger_payload": args.get("payload") or {},
    }
