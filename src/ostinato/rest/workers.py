"""Endpoints of workers and queues."""

from typing import Annotated
from uuid import UUID

from fastapi import Path
from pydantic import Field

from ostinato.core.bounds import QUEUE_NAME
from ostinato.core.errors import NotFound
from ostinato.rest.caller import Admin, Operator, Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.service import Service
from ostinato.shapes.base import LARGEST, RequestBody, Whole, shape
from ostinato.shapes.workers import QueueAnswer, QueueList, WorkerAnswer, WorkerList

router = api_router("workers")

WorkerId = Annotated[str, Path(alias="id", description="The id of a worker.", max_length=200)]
QueueName = Annotated[
    str,
    Path(alias="name", description="The name of a queue.", json_schema_extra={"pattern": shape(QUEUE_NAME)}),
]


class QueueEdit(RequestBody):
    """Changes to a queue."""

    max_queued: Annotated[Whole, Field(ge=1, le=LARGEST)] | None = Field(
        description="Schedules add runs only while fewer runs wait in the queue; null: no bound."
    )


@router.get("/workers")
def list_workers(service: ServiceDep, by: Viewer) -> WorkerList:
    """List the workers seen within the last day."""
    now = service.now()
    found = [WorkerAnswer.of(row, now) for row in service.workers()]
    return WorkerList(workers=found, total=len(found))


@router.post("/workers/{id}/drain")
def drain_worker(worker: WorkerId, service: ServiceDep, by: Operator) -> WorkerAnswer:
    """Ask a worker to drain: it finishes its runs, and claims no more."""
    worker_id = _id(worker)
    service.drain(worker_id, by=by.name)
    return next(WorkerAnswer.of(row, service.now()) for row in service.workers() if row.id == worker_id)


@router.get("/queues")
def list_queues(service: ServiceDep, by: Viewer) -> QueueList:
    """List all queues, with their waiting and running executions."""
    found = [QueueAnswer.of(row) for row in service.queues()]
    return QueueList(queues=found, total=len(found))


@router.post("/queues/{name}/pause")
def pause_queue(queue: QueueName, service: ServiceDep, by: Operator) -> QueueAnswer:
    """Pause a queue: no execution of it starts after the answer."""
    service.pause_queue(queue, by=by.name)
    return _queue(service, queue)


@router.post("/queues/{name}/resume")
def resume_queue(queue: QueueName, service: ServiceDep, by: Operator) -> QueueAnswer:
    """Resume a queue: its executions may start again."""
    service.resume_queue(queue, by=by.name)
    return _queue(service, queue)


@router.patch("/queues/{name}")
def edit_queue(queue: QueueName, body: QueueEdit, service: ServiceDep, by: Admin) -> QueueAnswer:
    """Set or remove the bound of a queue."""
    service.bound_queue(queue, body.max_queued, by=by.name)
    return _queue(service, queue)


def _queue(service: Service, name: str) -> QueueAnswer:
    return next(QueueAnswer.of(row) for row in service.queues() if row.name == name)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no worker {text!r}; an id is a UUID.") from None
