"""Shapes of the preview of a schedule: the request, and the due times."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ostinato.core.describe import describe
from ostinato.core.schedule import Cron, Schedule, due_times, to_json
from ostinato.core.searching import DueTimes, Expired
from ostinato.shapes.base import Instant, RequestBody, Text, Whole, WrongField
from ostinato.shapes.interval_job import WAYS, IntervalType
from ostinato.shapes.job_body import BodyContext, one_schedule
from ostinato.shapes.openapi import CRON, all_hold, either, says
from ostinato.shapes.own_job import ScheduleWords, Zone

MOST_TIMES = 1000


class PreviewBody(RequestBody):
    """A schedule, in our fields or those of seed 003, and `after`, where an interval starts."""

    model_config = ConfigDict(json_schema_extra=all_hold(either(*WAYS)))

    schedule: ScheduleWords | None = None
    timezone: Zone | None = None
    interval_minutes: Annotated[Whole, Field(ge=1, le=100_000_000)] | None = None
    interval_type: IntervalType | None = None
    schedule_time: Annotated[Text, says(**CRON)] | None = None
    after: Instant | None = None
    n: Annotated[Whole, Field(ge=1, le=MOST_TIMES)] = 10


class TimesAnswer(BaseModel):
    """The next due times of a schedule. `complete` is false if the search stopped early because it took too long."""

    schedule: dict[str, str | bool]
    description: str
    timezone: str | None
    times: list[datetime]
    complete: bool

    @classmethod
    def of(cls, schedule: Schedule, found: DueTimes) -> "TimesAnswer":
        zone = schedule.timezone if isinstance(schedule, Cron) else None
        return cls(
            schedule=to_json(schedule),
            description=describe(schedule),
            timezone=zone,
            times=found.times,
            complete=found.complete,
        )


def previewed(body: PreviewBody, here: BodyContext, expired: Expired) -> TimesAnswer:
    """Read the schedule of a preview and search for its next times until the search expires."""
    said = body.said()
    schedule = one_schedule(said, here)
    if schedule is None:
        raise WrongField("schedule", "Say which schedule: schedule, interval_minutes or schedule_time.")
    begin = body.after or here.now.replace(microsecond=0)
    return TimesAnswer.of(schedule, due_times(schedule, begin, begin, body.n, expired))
