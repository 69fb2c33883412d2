"""Shapes of workers and queues."""

import json
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ostinato.core.read_models import WorkerRow
from ostinato.shapes.answers import Answer, JsonObject, Out

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
