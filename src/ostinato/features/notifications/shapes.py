"""Shapes of webhooks and their deliveries."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import ConfigDict, Field, StrictFloat, StrictInt

from ostinato.core.arguments import arg, choice, whole
from ostinato.core.times import format_duration
from ostinato.features.notifications.rules import Measure, NoticeKind, Threshold
from ostinato.features.notifications.service import LATE, LIMITS, WINDOWS, NewHook
from ostinato.service.paging import PAGE_LIMIT
from ostinato.shapes.answers import Answer, JsonObject, Out, described
from ostinato.shapes.base import Duration, RequestBody, Text, Whole
from ostinato.shapes.openapi import Within, either, given, says
from ostinato.shapes.queries import ID

State = Literal["pending", "delivered", "given_up"]


class ThresholdBody(RequestBody):
    """A threshold: sends a notice if a measure passes its limit over a window, at most once per window."""

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
        description="success_rate: minimum in percent; duration: maximum ratio to earlier runs; "
        "losses: number that sends a notice."
    )
    window: Annotated[Duration, Within(*WINDOWS)]
    least: Whole = Field(
        10,
        ge=1,
        le=1_000_000,
        description="Minimum number of executions of a job; with fewer, no notice is sent.",
    )


class HookBody(RequestBody):
    """A new webhook."""

    model_config = ConfigDict(
        json_schema_extra=either(
            given(kinds={"type": "array", "minItems": 1}), given(thresholds={"type": "array", "minItems": 1})
        )
    )

    url: Text = Field(
        description="The address that receives the notices.",
        max_length=2048,
        json_schema_extra={"format": "http-url"},
    )
    kinds: list[NoticeKind] = Field([], description="Kinds of notices to send.", max_length=20)
    job: Annotated[Text, Field(min_length=1, max_length=200)] | None = Field(
        None, description="The id or key of a job; if omitted, all jobs."
    )
    secret: Annotated[Text, Field(max_length=1000), says(format="secret-reference")] | None = Field(
        None,
        description="Reference to the secret that signs notices: env:SECRET_NAME or file:/run/secrets/NAME.",
    )
    late_after: Annotated[Duration, Within(*LATE)] = Field(
        timedelta(minutes=1), description="The delay of a start that counts as late_start."
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


class ThresholdAnswer(Answer):
    """A threshold of a hook."""

    measure: Measure
    limit: float
    window: Annotated[str, Out(convert=format_duration)]
    least: int


class HookAnswer(Answer):
    """A webhook, and the number of its notices by state."""

    id: Annotated[UUID, Out("hook.id")]
    url: Annotated[str, Out("hook.url")]
    kinds: Annotated[list[NoticeKind], Out("hook.kinds", list)]
    job_id: Annotated[UUID | None, Out("hook.job_id")]
    secret: Annotated[str | None, Out("hook.secret", lambda secret: secret or None)]
    late_after: Annotated[str, Out("hook.late_after", format_duration)]
    thresholds: Annotated[
        list[ThresholdAnswer],
        Out("hook.thresholds", lambda found: [ThresholdAnswer.of(each) for each in found]),
    ]
    description: Annotated[str, Out("hook.description")]
    created_at: Annotated[datetime, Out("hook.created_at")]
    created_by: Annotated[str, Out("hook.created_by")]
    pending: Annotated[int, Out("tally.pending")]
    delivered: Annotated[int, Out("tally.delivered")]
    given_up: Annotated[int, Out("tally.given_up")]


@dataclass(frozen=True, kw_only=True)
class DeliveryQuery:
    """A page of deliveries."""

    state: str | None = arg(choice(*get_args(State)), "Only deliveries in this state.", None)
    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of deliveries.", 50)
    before: UUID | None = arg(ID, "The last delivery of the page before.", None)


class HookList(JsonObject):
    """All webhooks, the oldest first."""

    hooks: list[HookAnswer]


class DeliveryAnswer(Answer):
    """A notice, and the state of its delivery."""

    id: UUID
    kind: str
    state: State
    job_id: UUID | None
    created_at: datetime
    attempts: int
    next_attempt_at: Annotated[datetime | None, Out("due_at")]
    delivered_at: datetime | None
    given_up_at: datetime | None
    answer: int | None = described("The HTTP status of the last attempt.")
    error: Annotated[str | None, Out(convert=lambda error: error or None)]
    body: Annotated[dict[str, Any], Out(convert=json.loads)]


class DeliveryList(JsonObject):
    """A page of deliveries, the newest first."""

    deliveries: list[DeliveryAnswer]


class TestAnswer(JsonObject):
    """A queued notice of the kind `test`."""

    delivery_id: UUID


class HookGone(JsonObject):
    """The answer to a deletion."""

    message: str
