"""Schedules in plain English: "every 6 hours", "at 09:00 on weekdays, Europe/Paris"."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from ostinato.core import cron
from ostinato.core.duration import DAY, NAMES, WEEK, split_duration
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule

_A_MONDAY = date(2024, 1, 1)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MANY = 4  # more times than this are not listed
_STEP = re.compile(r"\*/(\d+)")
_NUMBERS = re.compile(r"\d+(,\d+)*")
_WRONG_ORDINAL = re.compile(r"\b([2-9])([123])th\b")


def describe(schedule: Schedule, anchor: datetime | None = None) -> str:
    """Describe a schedule in plain English; a period's time of day comes from its `anchor`."""
    match schedule:
        case Every(period):
            return f"every {_period(period)}{_time_of_day(period, anchor)}"
        case Cron(expression, timezone):
            return _cron(expression, timezone)
        case Once(at):
            return f"once, at {at.replace(microsecond=0, tzinfo=None)} UTC"
        case Manual():
            return "only by hand"


def _period(period: timedelta) -> str:
    match split_duration(period):
        case [(1, unit)]:
            return NAMES[unit]
        case parts:
            return " ".join(f"{count} {NAMES[unit]}{'s' * (count > 1)}" for count, unit in parts)


def _time_of_day(period: timedelta, anchor: datetime | None) -> str:
    if anchor is None or period % DAY:
        return ""
    at = anchor.astimezone(UTC)
    day = "" if period % WEEK else f" on {_WEEKDAYS[at.weekday()]}"
    return f"{day} at {at:%H:%M} UTC"


def _cron(expression: str, timezone: str) -> str:
    _, hour, *days = cron.split(expression)
    if (hour, *days, timezone) == ("*", "*", "*", "*", "UTC"):
        return _plainly(expression)  # the same in nearly every zone
    return f"{_plainly(expression)}, {timezone}"


def _plainly(expression: str) -> str:
    minute, hour, day, month, weekday = cron.split(expression)
    pattern = cron.parse(expression)
    times = _times_of_day(pattern) or _times_of_hour(minute, hour)
    if times is None or (day, month) != ("*", "*") or set(weekday) & set("#Ll"):
        return _at_length(expression)
    weekdays = [n for n in range(7) if pattern.is_on(_A_MONDAY + n * DAY)]
    if len(weekdays) == 7:
        return times if hour == "*" else f"{times} every day"
    return f"{times} on {_weekdays(weekdays)}"


def _times_of_day(pattern: cron.Pattern) -> str | None:
    if len(pattern.times) > _MANY:
        return None
    return f"at {_join([at.isoformat('minutes') for at in pattern.times])}"


def _times_of_hour(minute: str, hour: str) -> str | None:
    if hour != "*":
        return None
    if minute == "*":
        return "every minute"
    if (step := _STEP.fullmatch(minute)) and 60 % int(step[1]) == 0 and int(step[1]) > 1:
        return f"every {step[1]} minutes"
    if _NUMBERS.fullmatch(minute):
        return f"at minute{'s' * (',' in minute)} {_join(minute.split(','))} of every hour"
    return None


def _weekdays(days: list[int]) -> str:
    match days:
        case [0, 1, 2, 3, 4]:
            return "weekdays"
        case [5, 6]:
            return "weekends"
        case _:
            return _join([_WEEKDAYS[day] for day in days])


def _at_length(expression: str) -> str:
    text = cron.explain(expression)
    text = _WRONG_ORDINAL.sub(lambda found: found[1] + {"1": "1st", "2": "2nd", "3": "3rd"}[found[2]], text)
    return text[0].lower() + text[1:]


def _join(words: Sequence[str]) -> str:
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last
