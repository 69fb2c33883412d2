"""Shapes of one action for many jobs, of previews, and of deleted declared jobs."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from ostinato.core.arguments import read, schema
from ostinato.core.model import DeclinedJob
from ostinato.core.read_models import JobFilter
from ostinato.core.schedule import Expired, due_times
from ostinato.shapes.answers import Answer, JsonObject, Out
from ostinato.shapes.base import Instant, RequestBody, Text, Whole, WrongField
from ostinato.shapes.job_answer import IntervalType
from ostinato.shapes.job_body import BodyContext, one_schedule
from ostinato.shapes.job_words import WAYS, ScheduleWords, Zone
from ostinato.shapes.openapi import CRON, all_hold, either, says
from ostinato.shapes.queries import MOST_TIMES, Chosen, TimesAnswer

# -- Shapes of one action for many jobs: the request, and a result for each job

MOST_JOBS = 1000

Action = Literal["pause", "resume", "cancel", "delete", "retry", "run", "restart"]


FILTER: Final = schema(Chosen)


def _either(schema: dict[str, Any]) -> None:
    """Document that either ids or a filter is required, and that the filter must not be empty."""
    ids, chosen = schema["properties"]["ids"]["anyOf"][0], schema["properties"]["filter"]["anyOf"][0]
    says = [{"required": [name], "properties": {name: {"not": {"enum": [None]}}}} for name in FILTER["properties"]]
    schema["oneOf"] = [
        {"required": ["ids"], "properties": {"ids": ids, "filter": {"enum": [None]}}},
        {
            "required": ["filter"],
            "properties": {"filter": {"allOf": [chosen, {"anyOf": says}]}, "ids": {"enum": [None]}},
        },
    ]


class BulkBody(RequestBody):
    """An action, and its jobs by id (or key) or by a filter; at most 1,000 jobs."""

    model_config = ConfigDict(json_schema_extra=_either)

    action: Action
    ids: Annotated[list[Text], Field(max_length=MOST_JOBS)] | None = None
    filter: Annotated[dict[str, Any], WithJsonSchema(FILTER)] | None = None

    def check(self) -> None:
        if (self.ids is None) == (self.filter is None):
            raise WrongField("ids", "Say which jobs: either ids, or a filter.")
        if self.filter is not None and not any(value is not None for value in self.filter.values()):
            raise WrongField("filter", "An empty filter would match every job: give a condition.")

    @property
    def chosen(self) -> JobFilter | None:
        """The filter, read; None for jobs by id."""
        return None if self.filter is None else read(Chosen, self.filter, "filter").filter()


class BulkResult(JsonObject):
    """The result for one job."""

    id: str
    ok: bool
    status_code: int
    detail: str | None


class BulkAnswer(JsonObject):
    """The results for all jobs. `remaining` counts further jobs that match the filter: repeat the request for them."""

    action: Action
    succeeded: int
    failed: int
    remaining: int
    results: list[BulkResult]


# -- The preview of a schedule: the request, and how it is answered


class PreviewBody(RequestBody):
    """A schedule, in our fields or those of the interval scheduler, and `after`, where an interval starts."""

    model_config = ConfigDict(json_schema_extra=all_hold(either(*WAYS)))

    schedule: ScheduleWords | None = None
    timezone: Zone | None = None
    interval_minutes: Annotated[Whole, Field(ge=1, le=100_000_000)] | None = None
    interval_type: IntervalType | None = None
    schedule_time: Annotated[Text, says(**CRON)] | None = None
    after: Instant | None = None
    n: Annotated[Whole, Field(ge=1, le=MOST_TIMES)] = 10


def previewed(body: PreviewBody, here: BodyContext, expired: Expired) -> TimesAnswer:
    """Read the schedule of a preview and search for its next times until the search expires."""
    said = body.said()
    schedule = one_schedule(said, here)
    if schedule is None:
        raise WrongField("schedule", "Say which schedule: schedule, interval_minutes or schedule_time.")
    begin = body.after or here.now.replace(microsecond=0)
    return TimesAnswer.of(schedule, due_times(schedule, begin, begin, body.n, expired))


# -- Shapes of deleted declared jobs


class RedeclareBody(RequestBody):
    """The deleted job that its app may create again."""

    key: Text = Field(max_length=200, description="The key of the declared job.")
    app: Text | None = Field(None, max_length=200, description="The app, if several apps have this key.")


class DeclinedAnswer(Answer):
    """A deleted declared job, with the time and the caller of the deletion."""

    app: str
    key: str
    deleted_at: Annotated[datetime, Out("at")]
    deleted_by: Annotated[str, Out("by")]


class DeclinedList(JsonObject):
    """All declared jobs that stay deleted."""

    declined: list[DeclinedAnswer]
    total: int


class Redeclared(JsonObject):
    """A declared job that its app may create again."""

    app: str
    key: str
    message: str

    @classmethod
    def of(cls, row: DeclinedJob) -> "Redeclared":
        app = f"the app {row.app}" if row.app else "its app"
        message = f"{row.key} is created again when a process of {app} starts."
        return cls(app=row.app, key=row.key, message=message)
