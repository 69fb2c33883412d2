"""Executions, going out: the names of seed 003 beside ours."""

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from ostinato.core.account import Stopped
from ostinato.core.model import AskedBy, SkipReason
from ostinato.core.read_models import STATES
from ostinato.core.stops import Stop
from ostinato.shapes.answers import Answer, JsonObject, Out, told

MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration / MILLISECOND)


def sentence(stop: Stop | None) -> str | None:
    return None if stop is None else stop.sentence


def is_known_dead(stop: Stop | None) -> bool | None:
    return None if stop is None else stop.dead


class ExecutionAnswer(Answer):
    """One attempt, queued, running or ended."""

    id: UUID
    job_id: UUID
    task: str
    execution_number: int
    number: int
    retry_attempt: Annotated[int, Out("attempt")]
    status: str = told(enum=list(STATES))
    outcome: str | None
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: Annotated[datetime | None, Out("finished_at")]
    duration_ms: Annotated[int | None, Out("duration", milliseconds)]
    items_crawled: int | None
    items_indexed: int | None
    counters: dict[str, int | float] | None
    cpu_time_ms: int | None
    memory_peak_mb: float | None
    stopped: str | None = told(enum=[*Stopped, None])
    exit_code: int | None
    error_kind: str | None
    error_message: Annotated[str | None, Out("error")]
    stack_trace: Annotated[str | None, Out("traceback")]
    result: Any
    progress: Any
    metadata: Annotated[dict[str, Any], Out(convert=lambda found: dict(found or {}))]
    waits_for: str | None
    reason: str | None = told("Why it is queued, in a sentence.")
    stop: Annotated[str | None, Out(convert=sentence)] = told("How strong the stop of the run was, in a sentence.")
    known_dead: Annotated[bool | None, Out("stop", is_known_dead)] = told(
        "Whether a stopped run is known to have ended; null if nothing stopped it."
    )
    cancel_asked_at: datetime | None
    worker: Annotated[UUID | None, Out("worker_id")]
    version: int | None
    traceparent: str | None = told("The span of the run, if it was traced (W3C Trace Context).")
    key: str
    step: Annotated[str | None, Out(convert=lambda step: step or None)] = told(
        "The node of a workflow that it is a step of."
    )


class ExecutionList(JsonObject):
    """A page of executions, the newest first."""

    executions: list[ExecutionAnswer]
    total: int
    limit: int
    offset: int
    cursor: str | None


class SkipAnswer(Answer):
    """Due times that were not run, and why."""

    id: UUID
    job_id: UUID
    reason: SkipReason
    first_due_at: datetime
    last_due_at: datetime
    count: int
    recorded_at: datetime
    in_the_way: UUID | None


class SkipList(JsonObject):
    """The due times of a job that were not run, the newest first."""

    skips: list[SkipAnswer]
    skipped: int  # how many due times in all
    limit: int
