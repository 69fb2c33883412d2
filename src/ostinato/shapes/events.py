"""Shapes of events and of the live feed."""

import json
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from ostinato.core.model import Event
from ostinato.shapes.answers import Answer, JsonObject, told


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
    cursor: str = told("Give it as `cursor` to list or stream later events.")
