"""Events and the live feed, going out."""

import json
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel, Field

from ostinato.core.model import Event
from ostinato.store.feed import Item


class EventAnswer(BaseModel):
    """Something that happened. Its id is the same whenever it is told."""

    id: str
    kind: str
    at: datetime
    job_id: UUID | None
    execution_id: UUID | None
    worker_id: UUID | None
    by: str
    data: dict[str, Any]

    @classmethod
    def of(cls, item: Item) -> Self:
        return cls(
            id=item.id, kind=item.kind, at=item.at, job_id=item.job_id, execution_id=item.execution_id,
            worker_id=item.worker_id, by=item.by, data=item.data,
        )  # fmt: skip

    @classmethod
    def of_event(cls, event: Event) -> Self:
        return cls(
            id=f"event-{event.id}", kind=event.kind, at=event.at, job_id=event.job_id,
            execution_id=event.execution_id, worker_id=event.worker_id, by=event.by, data=json.loads(event.data),
        )  # fmt: skip


class EventList(BaseModel):
    """Events, and where to go on."""

    events: list[EventAnswer]
    cursor: str = Field(description="Ask with it for what has happened since, or stream from it.")
