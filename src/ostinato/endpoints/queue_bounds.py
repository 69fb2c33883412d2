"""The bound of a queue."""

from typing import Annotated

from pydantic import Field

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, Table
from ostinato.endpoints.workers import QueueName, queue_answer
from ostinato.shapes.base import LARGEST, RequestBody, Whole
from ostinato.shapes.workers import QueueAnswer

TABLE = Table("workers")


class QueueEdit(RequestBody):
    """Changes to a queue."""

    max_queued: Annotated[Whole, Field(ge=1, le=LARGEST)] | None = Field(
        description="Schedules add runs only while fewer runs wait in the queue; null: no bound."
    )


@TABLE.patch("/queues/{name}", Role.ADMIN)
def edit_queue(ask: Ask, queue: QueueName, body: QueueEdit) -> QueueAnswer:
    """Set or remove the bound of a queue."""
    ask.service.bound_queue(queue, body.max_queued, by=ask.by.name)
    return queue_answer(ask, queue)
