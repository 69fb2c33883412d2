"""Executions, going out: the names of seed 003 beside ours."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from ostinato.core.account import Stopped
from ostinato.core.model import AskedBy, Skip, SkipReason
from ostinato.service.views import ExecutionView
from ostinato.store.search import STATES

MILLISECOND = timedelta(milliseconds=1)


class ExecutionAnswer(BaseModel):
    """One attempt, queued, running or ended."""

    id: UUID
    job_id: UUID
    task: str
    execution_number: int
    number: int
    retry_attempt: int
    status: str = Field(json_schema_extra={"enum": list(STATES)})
    outcome: str | None
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    items_crawled: int | None
    items_indexed: int | None
    counters: dict[str, int | float] | None
    cpu_time_ms: int | None
    memory_peak_mb: float | None
    stopped: str | None = Field(json_schema_extra={"enum": [*Stopped, None]})
    exit_code: int | None
    error_kind: str | None
    error_message: str | None
    stack_trace: str | None
    result: Any
    progress: Any
    metadata: dict[str, Any]
    waits_for: str | None
    reason: str | None = Field(description="Why it is queued, in a sentence.")
    stop: str | None = Field(description="How strong the stop of the run was, in a sentence.")
    known_dead: bool | None = Field(
        description="Whether a stopped run is known to have ended; null if nothing stopped it."
    )
    cancel_asked_at: datetime | None
    worker: UUID | None
    version: int | None
    key: str
    step: str | None = Field(description="The node of a workflow that it is a step of.")

    @classmethod
    def of(cls, view: ExecutionView) -> "ExecutionAnswer":
        stop = view.stop
        return cls(
            id=view.id, job_id=view.job_id, task=view.task, execution_number=view.execution_number,
            number=view.number, retry_attempt=view.attempt, status=view.state, outcome=view.outcome,
            asked=view.asked, due_at=view.due_at, run_at=view.run_at, started_at=view.started_at,
            completed_at=view.finished_at, duration_ms=milliseconds(view.duration),
            items_crawled=view.items_crawled, items_indexed=view.items_indexed,
            counters=None if view.counters is None else dict(view.counters), cpu_time_ms=view.cpu_time_ms,
            memory_peak_mb=view.memory_peak_mb, stopped=view.stopped, exit_code=view.exit_code,
            error_kind=view.error_kind, error_message=view.error,
            stack_trace=view.traceback, result=view.result, progress=view.progress, metadata=dict(view.metadata or {}),
            waits_for=view.waits_for, reason=view.reason, stop=None if stop is None else stop.sentence,
            known_dead=None if stop is None else stop.dead, cancel_asked_at=view.cancel_asked_at, worker=view.worker_id,
            version=view.version, key=view.key, step=view.step or None,
        )  # fmt: skip


class ExecutionList(BaseModel):
    """A page of executions, the newest first."""

    executions: list[ExecutionAnswer]
    total: int
    limit: int
    offset: int
    cursor: str | None


class SkipAnswer(BaseModel):
    """Due times that were not run, and why."""

    id: UUID
    job_id: UUID
    reason: SkipReason
    first_due_at: datetime
    last_due_at: datetime
    count: int
    recorded_at: datetime
    in_the_way: UUID | None

    @classmethod
    def of(cls, skip: Skip) -> "SkipAnswer":
        return cls(
            id=skip.id, job_id=skip.job_id, reason=skip.reason, first_due_at=skip.first_due_at,
            last_due_at=skip.last_due_at, count=skip.count, recorded_at=skip.recorded_at, in_the_way=skip.in_the_way,
        )  # fmt: skip


class SkipList(BaseModel):
    """The due times of a job that were not run, the newest first."""

    skips: list[SkipAnswer]
    skipped: int  # how many due times in all
    limit: int


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration / MILLISECOND)
