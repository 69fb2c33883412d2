"""Workers and queues, going out."""

import json
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from ostinato.store.rows import QueueRow, WorkerRow

Doing = Literal["working", "draining", "silent", "stopped", "lost"]


class WorkerAnswer(BaseModel):
    """A worker: what it is doing, and what it can do."""

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


class WorkerList(BaseModel):
    """Live workers, and those of the last day."""

    workers: list[WorkerAnswer]
    total: int


class QueueAnswer(BaseModel):
    """A queue, with what waits and what runs in it."""

    name: str
    is_paused: bool
    paused_at: datetime | None
    paused_by: str
    max_queued: int | None
    queued: int
    running: int

    @classmethod
    def of(cls, row: QueueRow) -> "QueueAnswer":
        return cls(
            name=row.name, is_paused=row.paused_at is not None, paused_at=row.paused_at, paused_by=row.paused_by,
            max_queued=row.max_queued, queued=row.queued, running=row.running,
        )  # fmt: skip


class QueueList(BaseModel):
    """Every queue."""

    queues: list[QueueAnswer]
    total: int


def _doing(row: WorkerRow, now: datetime) -> Doing:
    if row.closed_at is not None:
        return "lost" if row.closed_as == "lost" else "stopped"
    if row.lease_until < now:
        return "silent"
    return "working" if row.drain_asked_at is None else "draining"
