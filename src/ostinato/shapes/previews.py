"""The preview of a schedule: the request, and how it is answered."""

from typing import Annotated

from pydantic import ConfigDict, Field

from ostinato.core.schedule import due_times
from ostinato.core.searching import Expired
from ostinato.shapes.base import Instant, RequestBody, Text, Whole, WrongField
from ostinato.shapes.due_times import MOST_TIMES, TimesAnswer
from ostinato.shapes.interval_job import WAYS
from ostinato.shapes.interval_schedule import IntervalType
from ostinato.shapes.job_body import BodyContext, one_schedule
from ostinato.shapes.openapi import CRON, all_hold, either, says
from ostinato.shapes.own_job import ScheduleWords, Zone


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


def previewed(body: PreviewBody, here: BodyContext, expired: Expired) -> TimesAnswer:
    """Read the schedule of a preview and search for its next times until the search expires."""
    said = body.said()
    schedule = one_schedule(said, here)
    if schedule is None:
        raise WrongField("schedule", "Say which schedule: schedule, interval_minutes or schedule_time.")
    begin = body.after or here.now.replace(microsecond=0)
    return TimesAnswer.of(schedule, due_times(schedule, begin, begin, body.n, expired))
