"""Shapes of due times."""

from datetime import datetime
from typing import Final

from ostinato.core.describe import describe
from ostinato.core.schedule import Cron, Schedule, to_json
from ostinato.core.searching import DueTimes
from ostinato.shapes.answers import JsonObject

MOST_TIMES: Final = 1000


class TimesAnswer(JsonObject):
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
