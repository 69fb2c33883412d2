"""Workers and queues: who works, and what may start."""

from typing import Annotated
from uuid import UUID

from fastapi import Path
from pydantic import Field

from ostinato.api.caller import Admin, Operator, Viewer
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.core.checks import QUEUE_NAME
from ostinato.core.errors import NotFound
from ostinato.scheduler import Scheduler
from ostinato.wire.words import LARGEST, Whole, Words, shape
from ostinato.wire.workers import QueueAnswer, QueueList, WorkerAnswer, WorkerList

router = api_router("workers")

WorkerId = Annotated[str, Path(alias="id", description="The id of a worker.", max_length=200)]
QueueName = Annotated[
    str,
    Path(alias="name", description="The name of a queue.", json_schema_extra={"pattern": shape(QUEUE_NAME)}),
]


class QueueEdit(Words):
    """Changes to a queue."""

    max_queued: Annotated[Whole, Field(ge=1, le=LARGEST)] | None = Field(
        description="The schedule fires into it only while fewer may start; null: without bound."
    )


@router.get("/workers")
def list_workers(desk: Desk, by: Viewer) -> WorkerList:
    """List live workers, and those of the last day."""
    now = desk.now()
    found = [WorkerAnswer.of(row, now) for row in desk.workers()]
    return WorkerList(workers=found, total=len(found))


@router.post("/workers/{id}/drain")
def drain_worker(worker: WorkerId, desk: Desk, by: Operator) -> WorkerAnswer:
    """Ask a worker to claim no more; it finishes what it runs."""
    worker_id = _id(worker)
    desk.drain(worker_id, by=by.name)
    return next(WorkerAnswer.of(row, desk.now()) for row in desk.workers() if row.id == worker_id)


@router.get("/queues")
def list_queues(desk: Desk, by: Viewer) -> QueueList:
    """Every queue, with what waits and what runs in it."""
    found = [QueueAnswer.of(row) for row in desk.queues()]
    return QueueList(queues=found, total=len(found))


@router.post("/queues/{name}/pause")
def pause_queue(queue: QueueName, desk: Desk, by: Operator) -> QueueAnswer:
    """From the answer on nothing of the queue starts."""
    desk.pause_queue(queue, by=by.name)
    return _queue(desk, queue)


@router.post("/queues/{name}/resume")
def resume_queue(queue: QueueName, desk: Desk, by: Operator) -> QueueAnswer:
    """Resume a queue: its executions may start again."""
    desk.resume_queue(queue, by=by.name)
    return _queue(desk, queue)


@router.patch("/queues/{name}")
def edit_queue(queue: QueueName, body: QueueEdit, desk: Desk, by: Admin) -> QueueAnswer:
    """Bound a queue, or take its bound away."""
    desk.bound_queue(queue, body.max_queued, by=by.name)
    return _queue(desk, queue)


def _queue(desk: Scheduler, name: str) -> QueueAnswer:
    return next(QueueAnswer.of(row) for row in desk.queues() if row.name == name)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no worker {text!r}; an id is a UUID.") from None
