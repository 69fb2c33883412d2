"""Schedules in the format of seed 003: an interval of whole minutes, and the cron expression that it stores."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Final, Literal, TypeVar

from ostinato.core.schedule import Cron, Every, Schedule, to_json

UNITS: Final = {"minutes": "m", "hours": "h", "days": "d"}
TYPES: Final = {unit: name for name, unit in UNITS.items()}
ONE_UNIT: Final = re.compile(r"(\d+)([mhd])", re.ASCII)

AnySchedule = TypeVar("AnySchedule", bound=Schedule | None)
IntervalType = Literal["minutes", "hours", "days"]


def interval_of(schedule: Schedule) -> tuple[int, IntervalType] | None:
    """Return a schedule as `interval_minutes` and `interval_type`, if it is an interval of whole minutes."""
    if not isinstance(schedule, Every) or schedule.period % timedelta(minutes=1):
        return None
    written = ONE_UNIT.fullmatch(str(to_json(schedule)["every"]))
    if written is None:
        return _largest_unit(schedule.period)
    return int(written[1]), TYPES[written[2]]  # type: ignore[return-value]


def cron_of(schedule: Schedule) -> Cron | None:
    """Return the cron schedule, or the cron schedule that an interval stores for a rollback."""
    return schedule.kept if isinstance(schedule, Every) else schedule if isinstance(schedule, Cron) else None


def keeping(schedule: AnySchedule, kept: Cron | None) -> AnySchedule | Every:
    """Store a cron schedule in an interval, for a rollback."""
    if not isinstance(schedule, Every) or schedule.kept is not None:
        return schedule
    return replace(schedule, kept=kept)


def _largest_unit(period: timedelta) -> tuple[int, IntervalType]:
    if not period % timedelta(days=1):
        return period // timedelta(days=1), "days"
    if not period % timedelta(hours=1):
        return period // timedelta(hours=1), "hours"
    return period // timedelta(minutes=1), "minutes"
