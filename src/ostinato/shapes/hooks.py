"""Hooks and their deliveries, in and out."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from ostinato.core.duration import format_duration
from ostinato.core.hooks import Measure, NoticeKind, Threshold
from ostinato.service.hooks import LATE, LIMITS, WINDOWS, HookView, NewHook
from ostinato.shapes.base import Duration, RequestBody, Text, Whole
from ostinato.shapes.openapi import Within, either, given, says
from ostinato.store.outbox import Delivery

State = Literal["pending", "delivered", "given_up"]


class ThresholdBody(RequestBody):
    """Tell when a measure is beyond its limit over a window, at most once in each window."""

    model_config = ConfigDict(
        json_schema_extra=either(
            *(
                given(measure={"const": measure.value}, limit={"exclusiveMinimum": least, "maximum": most})
                for measure, (least, most) in LIMITS.items()
            )
        )
    )

    measure: Measure
    limit: StrictFloat | StrictInt = Field(
        description="success_rate: percent, below it; duration: times as long as before; losses: so many or more."
    )
    window: Annotated[Duration, Within(*WINDOWS)]
    least: Whole = Field(10, ge=1, le=1_000_000, description="Fewer executions of a job say nothing.")


class HookBody(RequestBody):
    """A hook to be made."""

    model_config = ConfigDict(
        json_schema_extra=either(
            given(kinds={"type": "array", "minItems": 1}), given(thresholds={"type": "array", "minItems": 1})
        )
    )

    url: Text = Field(
        description="Where notices are posted to.", max_length=2048, json_schema_extra={"format": "http-url"}
    )
    kinds: list[NoticeKind] = Field([], description="What to tell of.", max_length=20)
    job: Annotated[Text, Field(min_length=1, max_length=200)] | None = Field(
        None, description="The id or key of a job; left out: all jobs."
    )
    secret: Annotated[Text, Field(max_length=1000), says(format="secret-reference")] | None = Field(
        None, description="Where the secret is that signs notices: env:SECRET_NAME or file:/run/secrets/NAME."
    )
    late_after: Annotated[Duration, Within(*LATE)] = Field(
        timedelta(minutes=1), description="How late a start is a late_start."
    )
    thresholds: list[ThresholdBody] = Field([], max_length=10)
    description: Text = Field("", max_length=500, json_schema_extra={"format": "printable"})

    def new_hook(self) -> NewHook:
        return NewHook(
            self.url,
            self.kinds,
            self.job,
            self.secret or "",
            self.late_after,
            [Threshold(t.measure, float(t.limit), t.window, t.least) for t in self.thresholds],
            self.description,
        )


class ThresholdAnswer(BaseModel):
    """A threshold of a hook."""

    measure: Measure
    limit: float
    window: str
    least: int


class HookAnswer(BaseModel):
    """A hook, and how many of its notices are where."""

    id: UUID
    url: str
    kinds: list[NoticeKind]
    job_id: UUID | None
    secret: str | None
    late_after: str
    thresholds: list[ThresholdAnswer]
    description: str
    created_at: datetime
    created_by: str
    pending: int
    delivered: int
    given_up: int

    @classmethod
    def of(cls, view: HookView) -> Self:
        hook, tally = view.hook, view.tally
        thresholds = [
            ThresholdAnswer(measure=t.measure, limit=t.limit, window=format_duration(t.window), least=t.least)
            for t in hook.thresholds
        ]
        return cls(
            id=hook.id, url=hook.url, kinds=list(hook.kinds), job_id=hook.job_id, secret=hook.secret or None,
            late_after=format_duration(hook.late_after), thresholds=thresholds, description=hook.description,
            created_at=hook.created_at, created_by=hook.created_by, pending=tally.pending,
            delivered=tally.delivered, given_up=tally.given_up,
        )  # fmt: skip


class HookList(BaseModel):
    """All hooks, the oldest first."""

    hooks: list[HookAnswer]


class DeliveryAnswer(BaseModel):
    """A notice, and what came of it so far."""

    id: UUID
    kind: str
    state: State
    job_id: UUID | None
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    given_up_at: datetime | None
    answer: int | None = Field(description="The HTTP status of the last attempt.")
    error: str | None
    body: dict[str, Any]

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        over: State = "delivered" if delivery.delivered_at is not None else "given_up"
        return cls(
            id=delivery.id, kind=delivery.kind, state="pending" if delivery.due_at is not None else over,
            job_id=delivery.job_id, created_at=delivery.created_at, attempts=delivery.attempts,
            next_attempt_at=delivery.due_at, delivered_at=delivery.delivered_at,
            given_up_at=delivery.given_up_at, answer=delivery.answer, error=delivery.error or None,
            body=json.loads(delivery.body),
        )  # fmt: skip


class DeliveryList(BaseModel):
    """A page of deliveries, the newest first."""

    deliveries: list[DeliveryAnswer]


class TestAnswer(BaseModel):
    """A notice of the kind `test` is on its way."""

    delivery_id: UUID
