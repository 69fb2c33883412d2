"""Schedules (`Every`, `Cron`, `Once`, `Manual`), their due times, and their descriptions.

Instants are aware datetimes in UTC. `anchor` is what the grid of an `Every` counts from: it is due at
`anchor + k · period`, k ≥ 1; the other schedules ignore it.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple, Self

from ostinato.core import cron
from ostinato.core.errors import InvalidSchedule
from ostinato.core.times import (
    DAY,
    MICROSECOND,
    NAMES,
    SECOND,
    WEEK,
    format_duration,
    is_duration,
    parse_duration,
    split_duration,
    zone,
)

# -- Searches for due times that can be stopped: the caller gets the times found so far

Expired = Callable[[], bool]  # whether a search has used its time


class DueTimes(NamedTuple):
    """Due times, and whether the search for them reached its end."""

    times: list[datetime]
    complete: bool


def no_limit() -> bool:
    """Let a search run to its end."""
    return False


def search(steps: Iterator[datetime | None], n: int, expired: Expired) -> DueTimes:
    """Take `n` due times. A step finds one, or none; between two steps the search may expire."""
    found: list[datetime] = []
    if n <= 0:
        return DueTimes(found, complete=True)
    for due in steps:
        if due is not None:
            found.append(due)
        if len(found) == n:
            break
        if expired():
            return DueTimes(found, complete=False)
    return DueTimes(found, complete=True)


# -- Schedules (`Every`, `Cron`, `Once`, `Manual`) and functions of their due times

LOOKED_AT = 10  # due times of a cron schedule, for its shortest gap
CACHED_GAPS = 4096  # shortest gaps
LONGEST_PERIOD = 36_525 * DAY  # a hundred years

# Due times exist between these two only, so that no zone can push a wall time off the calendar.
_BEGINNING = datetime(1, 1, 4, tzinfo=UTC)
_END = datetime(9999, 12, 28, tzinfo=UTC)

_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")
_ONE_UNIT = re.compile(r"[1-9]\d{0,8}[smhdw]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Every:
    """At a fixed distance, counted in real time: a day is 24 hours. `written` keeps `60m` from becoming `1h`.

    `kept` is the cron expression that the interval has replaced. It makes nothing due; an edit may return to it.
    """

    period: timedelta
    written: str = field(default="", compare=False)
    kept: "Cron | None" = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.period < SECOND:
            raise InvalidSchedule(f"The shortest interval is 1 second, not {self.period.total_seconds():g} seconds.")
        if self.period > LONGEST_PERIOD:
            raise InvalidSchedule(f"The longest interval is 100 years, not {self.period.days} days.")

    @classmethod
    def of(cls, value: str | int | float | timedelta, unit: str | None = None) -> Self:
        """Make an interval: `Every.of("6h")`, `Every.of(6, "hours")`, or a number of seconds."""
        if isinstance(value, str) and unit is None and _ONE_UNIT.fullmatch(value):
            return cls(parse_duration(value), value)
        return cls(parse_duration(value if unit is None else f"{value} {unit}"))


@dataclass(frozen=True, slots=True)
class Cron:
    """At the wall times of a cron expression, in a zone."""

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", " ".join(self.expression.split()))
        cron.parse(self.expression)
        zone(self.timezone)


@dataclass(frozen=True, slots=True)
class Once:
    """At one instant."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            raise InvalidSchedule(f"{self.at} is in no time zone; end it with Z (UTC) or an offset like +02:00.")
        object.__setattr__(self, "at", _in_utc(self.at))


@dataclass(frozen=True, slots=True)
class Manual:
    """Only when a person, or a program, asks for it."""


Schedule = Every | Cron | Once | Manual


def is_recurring(schedule: Schedule) -> bool:
    """Return True if there is always a next due time."""
    return isinstance(schedule, Every | Cron)


def next_after(schedule: Schedule, anchor: datetime, after: datetime) -> datetime | None:
    """Return the first due time strictly after an instant; None when there is none before the calendar ends."""
    match schedule:
        case Every(period):
            step = (_steps(anchor, period, after) + 1) * period
            return anchor + step if step <= _END - anchor else None
        case Cron(expression, timezone):
            if after >= _END:
                return None
            due = cron.next_after(cron.parse(expression), zone(timezone), max(after, _BEGINNING))
            return due if due is not None and due <= _END else None
        case Once(at):
            return at if at > after else None
        case Manual():
            return None


def latest_at_or_before(schedule: Schedule, anchor: datetime, at: datetime, floor: datetime) -> datetime | None:
    """Return the last due time in `(floor, at]`."""
    due = _latest(schedule, anchor, at)
    return due if due is not None and due > floor else None


def count_between(schedule: Schedule, anchor: datetime, after: datetime, until: datetime) -> int:
    """Count the due times in `(after, until]`."""
    match schedule:
        case Every(period):
            by_then = _steps(anchor, period, min(until, _END))
            return max(0, by_then - _steps(anchor, period, after))
        case Cron(expression, timezone):
            begin, end = max(after, _BEGINNING), min(until, _END)
            return cron.count_between(cron.parse(expression), zone(timezone), begin, end)
        case Once(at):
            return int(after < at <= until)
        case Manual():
            return 0


def due_times_after(schedule: Schedule, anchor: datetime, after: datetime) -> Iterator[datetime]:
    """Yield every due time strictly after an instant, in order; for many this costs less than asking one by one."""
    if isinstance(schedule, Cron):
        line = cron.due_times(cron.parse(schedule.expression), zone(schedule.timezone), max(after, _BEGINNING))
        yield from takewhile(lambda due: due <= _END, line)
        return
    while (due := next_after(schedule, anchor, after)) is not None:
        yield due
        after = due


def preview(schedule: Schedule, anchor: datetime, after: datetime, n: int) -> list[datetime]:
    """List the next `n` due times, or fewer when there are no more."""
    return due_times(schedule, anchor, after, n, no_limit).times


def due_times(schedule: Schedule, anchor: datetime, after: datetime, n: int, expired: Expired) -> DueTimes:
    """Search for the next `n` due times until the search expires."""
    return search(due_times_after(schedule, anchor, after), n, expired)


def shortest_gap(schedule: Schedule, after: datetime) -> timedelta | None:
    """Return the period, or the shortest gap between the next ten times of a cron schedule."""
    match schedule:
        case Every(period):
            return period
        case Cron():
            return _shortest_gap(schedule, after)
        case _:
            return None


@lru_cache(CACHED_GAPS)
def _shortest_gap(schedule: Cron, after: datetime) -> timedelta | None:
    times = preview(schedule, after, after, LOOKED_AT)
    return min((later - earlier for earlier, later in pairwise(times)), default=None)


def jitter(width: timedelta, seed: str, due: datetime) -> timedelta:
    """Return a delay in `[0, width)`, evenly spread; a seed and a due time give the same delay on every machine."""
    digest = hashlib.sha256(f"{seed} {due.astimezone(UTC).isoformat()}".encode()).digest()
    fraction = int.from_bytes(digest[:8], "big")
    return (width // MICROSECOND * fraction >> 64) * MICROSECOND


def parse_schedule(text: str, timezone: str) -> Schedule:
    """Read `30m`, `every 30m`, `0 9 * * mon-fri`, `@daily`, `2026-11-16T09:00Z`, `at 2026-…` or `manual`."""
    words = text.split()
    match [word.lower() for word in words]:
        case ["manual"]:
            return Manual()
        case ["every", *_]:
            return Every.of(" ".join(words[1:]))
        case ["at", *_]:
            return _once(" ".join(words[1:]))
    if is_duration(text):
        return Every.of(text)
    if _DATE.match(text):
        return _once(text)
    if len(words) > 1 or text.startswith("@"):
        return Cron(text, timezone)
    raise InvalidSchedule(
        f"{text[:60]!r} is not a schedule; write an interval (30m), a cron expression "
        "(0 9 * * mon-fri, @daily), an instant (2026-11-16T09:00:00Z) or manual."
    )


def to_json(schedule: Schedule) -> dict[str, str | bool]:
    """Write a schedule as plain values; `from_json` reads them back exactly."""
    match schedule:
        case Every(period, written, kept):
            beside = {} if kept is None else {"schedule_time": kept.expression, "timezone": kept.timezone}
            return {"every": written or format_duration(period), **beside}
        case Cron(expression, timezone):
            return {"cron": expression, "timezone": timezone}
        case Once(at):
            return {"at": at.isoformat().replace("+00:00", "Z")}
        case Manual():
            return {"manual": True}


def from_json(value: Mapping[str, object]) -> Schedule:
    """Read the output of `to_json`, or the same form written by a person."""
    match dict(value):
        case {"every": str() | int() | float() as period, **rest} if not rest:
            return Every.of(period)
        case {"every": str(period), "schedule_time": str(expression), "timezone": str(timezone), **rest} if not rest:
            return replace(Every.of(period), kept=Cron(expression, timezone))
        case {"cron": str(expression), "timezone": str(timezone), **rest} if not rest:
            return Cron(expression, timezone)
        case {"cron": str(expression), **rest} if not rest:
            return Cron(expression)
        case {"at": str(text), **rest} if not rest:
            return _once(text)
        case {"manual": True, **rest} if not rest:
            return Manual()
    raise InvalidSchedule(
        'A schedule is one of {"every": "6h"}, {"cron": "0 9 * * *", "timezone": "UTC"}, '
        f'{{"at": "2026-11-16T09:00:00Z"}} and {{"manual": true}}, not {str(value)[:100]}.'
    )


def _steps(anchor: datetime, period: timedelta, at: datetime) -> int:
    """Count the due times of a grid up to an instant."""
    return max(0, (at - anchor) // period)


def _latest(schedule: Schedule, anchor: datetime, at: datetime) -> datetime | None:
    match schedule:
        case Every(period):
            steps = _steps(anchor, period, min(at, _END))
            return anchor + steps * period if steps else None
        case Cron(expression, timezone):
            if at <= _BEGINNING:
                return None
            return cron.latest_at_or_before(cron.parse(expression), zone(timezone), min(at, _END))
        case Once(due):
            return due if due <= at else None
        case Manual():
            return None


def _once(text: str) -> Once:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSchedule(f"{text[:60]!r} is not an instant; write it like 2026-11-16T09:00:00Z.") from None
    return Once(at)


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidSchedule(f"{at} goes beyond the calendar.") from None


# -- Schedules in plain English: "every 6 hours", "at 09:00 on weekdays, Europe/Paris"

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
