"""Shapes of workers, queues, tasks, statistics and events."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from ostinato.core.model import Event, Status
from ostinato.core.read_models import WorkerRow
from ostinato.service.metrics import Metrics
from ostinato.shapes.answers import Answer, JsonObject, Out, described
from ostinato.shapes.executions import milliseconds

# -- Shapes of workers and queues

Doing = Literal["working", "draining", "silent", "stopped", "lost"]


class WorkerAnswer(JsonObject):
    """A worker: its state, load, queues and tasks."""

    id: UUID
    status: Doing
    app: str
    host: str
    pid: int
    version: str
    tasks: list[str]
    queues: list[str]
    concurrency: int
    running: int
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    drain_asked_at: datetime | None
    closed_at: datetime | None

    @classmethod
    def of(cls, row: WorkerRow, now: datetime) -> "WorkerAnswer":
        return cls(
            id=row.id, status=_doing(row, now), app=row.app, host=row.host, pid=row.pid, version=row.version,
            tasks=sorted(row.task_names), queues=json.loads(row.queues), concurrency=row.concurrency,
            running=row.running, started_at=row.started_at, renewed_at=row.renewed_at, lease_until=row.lease_until,
            drain_asked_at=row.drain_asked_at, closed_at=row.closed_at,
        )  # fmt: skip


class WorkerList(JsonObject):
    """Workers seen within the last day."""

    workers: list[WorkerAnswer]
    total: int


class QueueAnswer(Answer):
    """A queue, with its waiting and running executions."""

    name: str
    is_paused: Annotated[bool, Out("paused_at", lambda at: at is not None)]
    paused_at: datetime | None
    paused_by: str
    max_queued: int | None
    queued: int
    running: int


class QueueList(JsonObject):
    """All queues."""

    queues: list[QueueAnswer]
    total: int


def _doing(row: WorkerRow, now: datetime) -> Doing:
    if row.closed_at is not None:
        return "lost" if row.closed_as == "lost" else "stopped"
    if row.lease_until < now:
        return "silent"
    return "working" if row.drain_asked_at is None else "draining"


# -- Shapes of tasks


class TaskAnswer(Answer):
    """A task and its arguments."""

    name: str
    origin: Literal["built_in", "own", "elsewhere"] = described(
        "built_in: part of Ostinato; own: of this app; elsewhere: known only to other processes."
    )
    help: str
    args: dict[str, Any] | None = described("A JSON schema of its args; null if no worker has described the task.")
    allowed: Annotated[bool, Out("off", lambda off: off is None)] = described(
        "Whether the settings of this process allow jobs with it."
    )
    reason: Annotated[str | None, Out("off")] = described("Why the task is not allowed, and which setting allows it.")


class TaskList(JsonObject):
    """All known tasks by name."""

    tasks: list[TaskAnswer]
    total: int


# -- Shapes of statistics: all names of seed 003, and further ones

Percentiles = dict[str, int | None]
Amount = TypeVar("Amount")


def _percentiles(found: Mapping[int, timedelta]) -> Percentiles:
    return {f"p{percent}": milliseconds(value) for percent, value in found.items()}


def _named(found: Mapping[int, Amount]) -> dict[str, Amount]:
    return {f"p{percent}": value for percent, value in found.items()}


class JobStatsAnswer(Answer):
    """Statistics of a job."""

    total_executions: int
    successful_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped: int
    average_duration_ms: Annotated[int | None, Out("average_duration", milliseconds)]
    duration_ms: Annotated[Percentiles, Out("percentiles", _percentiles)]
    lateness_ms: Annotated[Percentiles, Out("lateness", _percentiles)]
    cpu_time_ms: Annotated[Percentiles, Out("cpu_ms", _named)]
    memory_peak_mb: Annotated[dict[str, float], Out("memory_mb", _named)]
    last_execution_at: datetime | None
    next_scheduled_at: datetime | None
    success_rate: float | None


class FiguresAnswer(Answer):
    """Statistics of runs: counts of all time; durations and lateness of the newest runs."""

    total: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    average_duration_ms: Annotated[int | None, Out("average_duration", milliseconds)]
    duration_ms: Annotated[Percentiles, Out("durations", _percentiles)]
    lateness_ms: Annotated[Percentiles, Out("lateness", _percentiles)]
    cpu_time_ms: Annotated[Percentiles, Out("cpu_ms", _named)]
    memory_peak_mb: Annotated[dict[str, float], Out("memory_mb", _named)]
    success_rate: float | None


class MetricsAnswer(JsonObject):
    """Statistics of all jobs, and of each task."""

    jobs: dict[Status, int]
    executions: FiguresAnswer
    tasks: dict[str, FiguresAnswer]
    last_check_at: datetime | None
    last_metrics_update: datetime
    stale_locks_cleared: int

    @classmethod
    def of(cls, metrics: Metrics) -> "MetricsAnswer":
        return cls(
            jobs=dict(metrics.jobs), executions=FiguresAnswer.of(metrics.executions),
            tasks={task: FiguresAnswer.of(figures) for task, figures in metrics.tasks.items()},
            last_check_at=metrics.last_check_at, last_metrics_update=metrics.last_metrics_update,
            stale_locks_cleared=metrics.stale_locks_cleared,
        )  # fmt: skip


# -- Shapes of events and of the live feed


class EventAnswer(Answer):
    """An event. Its id is the same in each answer and stream."""

    id: str
    kind: str
    at: datetime
    job_id: UUID | None
    execution_id: UUID | None
    worker_id: UUID | None
    by: str
    data: dict[str, Any]

    @classmethod
    def of_event(cls, event: Event) -> Self:
        return cls(
            id=f"event-{event.id}", kind=event.kind, at=event.at, job_id=event.job_id,
            execution_id=event.execution_id, worker_id=event.worker_id, by=event.by, data=json.loads(event.data),
        )  # fmt: skip


class EventList(JsonObject):
    """Events, and the cursor for later ones."""

    events: list[EventAnswer]
    cursor: str = described("Give it as `cursor` to list or stream later events.")
