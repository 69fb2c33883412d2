"""Cron expressions: five fields, read by `cronsim`, brought to instants by Debian's rules.

A `Pattern` knows wall times only: times as a clock shows them, in no zone. The functions after it convert them to
instants. They do not use cronsim's own zone arithmetic: started in the second pass of a fold it goes back in time,
and in half-hour zones it misses a due time.

Debian has two kinds of schedule:
- one whose minute or hour field begins with `*` **follows real time**: it is due whenever the clock shows a
  matching time, on both passes of a fold, and has nothing in a gap;
- any other is **fixed**: in a fold it is due on the first pass only, and all its times in one gap are due
  once, at the first instant after the gap.

The search is short, because on one pass, first or last, a later wall time never has an earlier instant. So the
due times are two sorted sequences (one, when fixed), and the next due time is the earlier of their next ones.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from heapq import merge
from itertools import takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ostinato.core.errors import InvalidSchedule
from ostinato.core.times import CALM, HOUR, gap_end, offset_at, passes, wall_at, wall_span

if TYPE_CHECKING:
    from cronsim import CronSim

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")

_FIRST_DAY, _LAST_DAY = 2, date.max.toordinal() - 1  # a day off each end of the calendar: room for offsets
_EVERY_KIND_OF_YEAR = range(date(2000, 1, 1).toordinal(), date(2028, 1, 1).toordinal())
_LONGEST_EXPRESSION = 1000
_ANY_START = datetime(2000, 1, 1, tzinfo=UTC)  # cronsim requires a start; here it only reads and matches

_RANGE_OF_ONE = re.compile(r"\b0*(\w+)-0*\1/\d+", re.ASCII)  # `5-5/10` is 5; cronsim would read `5/10`

_FIRST_PASS, _LAST_PASS = 0, -1


@dataclass(frozen=True, slots=True)
class Pattern:
    """The wall times that a cron expression names."""

    times: tuple[time, ...]
    months: frozenset[int]
    matches_day: Callable[[date], bool]
    follows_real_time: bool

    def is_on(self, day: date) -> bool:
        return day.month in self.months and self.matches_day(day)

    def forward(self, wall: datetime) -> Iterator[datetime]:
        """Yield the matching wall times from this one on."""
        times = self.times[bisect_left(self.times, wall.time()) :]
        for day in map(date.fromordinal, range(wall.toordinal(), _LAST_DAY + 1)):
            if self.is_on(day):
                yield from (datetime.combine(day, at) for at in times)
            times = self.times

    def backward(self, wall: datetime) -> Iterator[datetime]:
        """Yield the matching wall times from this one back."""
        times = self.times[: bisect_right(self.times, wall.time())]
        for day in map(date.fromordinal, range(wall.toordinal(), _FIRST_DAY - 1, -1)):
            if self.is_on(day):
                yield from (datetime.combine(day, at) for at in reversed(times))
            times = self.times

    def count(self, after: datetime, until: datetime) -> int:
        """Count the matching wall times in `(after, until]`."""
        days = map(date.fromordinal, range(after.toordinal(), until.toordinal()))
        return sum(map(self.is_on, days)) * len(self.times) + self._by(until) - self._by(after)

    def _by(self, wall: datetime) -> int:
        return bisect_right(self.times, wall.time()) if self.is_on(wall) else 0


def next_after(pattern: Pattern, tz: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first due time strictly after an instant."""
    begin, _ = wall_span(after, tz)
    lines = [_line(pattern, tz, pattern.forward(begin), which) for which in _passes_of(pattern)]
    nexts = [next((due for due in line if due > after), None) for line in lines]
    return min(filter(None, nexts), default=None)


def due_times(pattern: Pattern, tz: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield every due time strictly after an instant, in order."""
    begin, _ = wall_span(after, tz)
    for due in merge(*(_line(pattern, tz, pattern.forward(begin), which) for which in _passes_of(pattern))):
        if due > after:
            yield due
            after = due


def latest_at_or_before(pattern: Pattern, tz: ZoneInfo, at: datetime) -> datetime | None:
    """Return the last due time up to an instant, itself included."""
    _, begin = wall_span(at, tz)
    lines = [_line(pattern, tz, pattern.backward(begin), which) for which in _passes_of(pattern)]
    lasts = [next((due for due in line if due <= at), None) for line in lines]
    return max(filter(None, lasts), default=None)


def count_between(pattern: Pattern, tz: ZoneInfo, after: datetime, until: datetime) -> int:
    """Count the due times in `(after, until]`: by arithmetic, or one by one where the wall clock jumps."""
    total = 0
    while after < until:
        end = after + min(CALM, until - after)
        if not _is_even(after, end, tz):
            end = after + min(HOUR, until - after)
        if _is_even(after, end, tz):
            total += pattern.count(wall_at(after, tz), wall_at(end, tz))
        else:
            total += _count_each(pattern, tz, after, end)
        after = end
    return total


def _line(pattern: Pattern, tz: ZoneInfo, walls: Iterable[datetime], which: int) -> Iterator[datetime]:
    """Yield the instants of these wall times on one pass."""
    for wall in walls:
        if due := _due(pattern, tz, wall):
            yield due[which]


def _due(pattern: Pattern, tz: ZoneInfo, wall: datetime) -> tuple[datetime, ...]:
    shown = passes(wall, tz)
    if pattern.follows_real_time:
        return shown
    return shown[:1] or (gap_end(wall, tz),)


def _passes_of(pattern: Pattern) -> tuple[int, ...]:
    return (_FIRST_PASS, _LAST_PASS) if pattern.follows_real_time else (_FIRST_PASS,)


def _is_even(after: datetime, until: datetime, tz: ZoneInfo) -> bool:
    """Return True if the wall clock does not jump in `(after, until]`."""
    return offset_at(after, tz) == offset_at(until, tz) and not after.astimezone(tz).fold


def _count_each(pattern: Pattern, tz: ZoneInfo, after: datetime, until: datetime) -> int:
    begin, end = wall_span(after, tz)[0], wall_span(until, tz)[1]
    walls = takewhile(lambda wall: wall <= end, pattern.forward(begin))
    return len({due for wall in walls for due in _due(pattern, tz, wall) if after < due <= until})


@lru_cache(maxsize=4096)
def parse(expression: str) -> Pattern:
    """Read a cron expression, or refuse it with a sentence."""
    minute, hour, day, month, weekday = split(expression)
    days = _read(expression, f"{minute} {hour} {day} * {weekday}")
    months = _read(
        expression, f"0 0 * {month} *"
    ).months  # read apart, so that our own error names a schedule that never fires
    pattern = Pattern(
        times=tuple(time(h, m) for h in sorted(days.hours) for m in sorted(days.minutes)),
        months=frozenset(months),
        matches_day=days.match_day,
        follows_real_time=minute.startswith("*") or hour.startswith("*"),
    )
    if not any(map(pattern.is_on, map(date.fromordinal, _EVERY_KIND_OF_YEAR))):
        raise _refused(expression, "it can never fire: no year has such a day")
    return pattern


def split(expression: str) -> list[str]:
    """Return the five fields of an expression or alias."""
    if len(expression) > _LONGEST_EXPRESSION:
        raise _refused(expression, f"it is longer than {_LONGEST_EXPRESSION} characters")
    if expression.startswith("@") and expression.lower() not in ALIASES:
        raise _refused(expression, f"there is no such alias; the aliases are {', '.join(ALIASES)}")
    fields = ALIASES.get(expression.lower(), expression).split()
    if len(fields) != len(FIELDS):
        raise _refused(expression, f"it has {len(fields)} fields instead of five ({' '.join(FIELDS)})")
    return [_RANGE_OF_ONE.sub(r"\1", field) for field in fields]


def explain(expression: str) -> str:
    """Describe the expression in cronsim's words."""
    return _read(expression, " ".join(split(expression))).explain()


def _read(expression: str, fields: str) -> "CronSim":
    from cronsim import CronSim, CronSimError  # imported late: most processes read no cron expression

    try:
        return CronSim(fields, _ANY_START)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        text = split(expression)[FIELDS.index(name)]
        raise _refused(expression, f"its {name} field cannot be {text!r}") from None


def _refused(expression: str, reason: str) -> InvalidSchedule:
    return InvalidSchedule(f"The cron expression {expression[:100]!r} is refused: {reason}.")
