"""Workers and queues: list, drain, pause, resume."""

from typing import Annotated
from uuid import UUID

from ostinato.core.access import Role
from ostinato.core.bounds import QUEUE_NAME
from ostinato.core.errors import NotFound
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.shapes.openapi import pattern
from ostinato.shapes.queries import like
from ostinato.shapes.workers import QueueAnswer, QueueList, WorkerAnswer, WorkerList

TABLE = Table("workers")

WorkerId = Annotated[str, InPath("id", "The id of a worker.")]
QueueName = Annotated[str, InPath("name", "The name of a queue.", like(pattern(QUEUE_NAME)))]


@TABLE.get("/workers", Role.VIEWER)
def list_workers(ask: Ask) -> WorkerList:
    """List the workers seen within the last day."""
    now = ask.service.now()
    found = [WorkerAnswer.of(row, now) for row in ask.service.workers()]
    return WorkerList(workers=found, total=len(found))


@TABLE.post("/workers/{id}/drain", Role.OPERATOR)
def drain_worker(ask: Ask, worker: WorkerId) -> WorkerAnswer:
    """Ask a worker to drain: it finishes its runs, and claims no more."""
    worker_id = _id(worker)
    ask.service.drain(worker_id, by=ask.by.name)
    rows = (row for row in ask.service.workers() if row.id == worker_id)
    return WorkerAnswer.of(next(rows), ask.service.now())


@TABLE.get("/queues", Role.VIEWER)
def list_queues(ask: Ask) -> QueueList:
    """List all queues, with their waiting and running executions."""
    found = [QueueAnswer.of(row) for row in ask.service.queues()]
    return QueueList(queues=found, total=len(found))


@TABLE.post("/queues/{name}/pause", Role.OPERATOR)
def pause_queue(ask: Ask, queue: QueueName) -> QueueAnswer:
    """Pause a queue: no execution of it starts after the answer."""
    ask.service.pause_queue(queue, by=ask.by.name)
    return queue_answer(ask, queue)


@TABLE.post("/queues/{name}/resume", Role.OPERATOR)
def resume_queue(ask: Ask, queue: QueueName) -> QueueAnswer:
    """Resume a queue: its executions may start again."""
    ask.service.resume_queue(queue, by=ask.by.name)
    return queue_answer(ask, queue)


def queue_answer(ask: Ask, name: str) -> QueueAnswer:
    """Return the answer for a queue."""
    return next(QueueAnswer.of(row) for row in ask.service.queues() if row.name == name)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no worker {text!r}; an id is a UUID.") from None
