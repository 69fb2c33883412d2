"""Windows: the days and hours in which a job may run, by the clock on the wall.

A window follows the wall clock alone: an hour that a fold shows twice is inside on both passes, an hour in a gap does
not exist. So a window opens and closes only where the clock shows its opening or closing time, or where it jumps. The
functions below look at those instants and ask `contains`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from typing import Self

from ostinato.core.duration import DAY, MICROSECOND
from ostinato.core.errors import Invalid
from ostinato.core.zones import change_between, offset_at, passes, wall_at, zone

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = frozenset(range(7))

_REACH = 16  # days: a weekly opening may fall into a gap, the one of the week after cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Open on some days (0 is Monday), from `start` until just before `end`.

    An `end` that is not after `start` is the next day's: those hours belong to the day on which it opened.
    """

    days: frozenset[int] = EVERY_DAY
    start: time
    end: time
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if not self.days:
            raise Invalid("A window without days is never open; name at least one day.")
        if not self.days <= EVERY_DAY:
            raise Invalid(f"The days of a window are 0 (Monday) to 6 (Sunday), not {sorted(self.days)}.")
        if self.start.tzinfo or self.end.tzinfo:
            raise Invalid("The hours of a window carry no offset of their own; name its timezone instead.")
        zone(self.timezone)

    def contains(self, at: datetime) -> bool:
        """Return True if the window is open at an instant."""
        wall = wall_at(at, zone(self.timezone))
        clock, today, yesterday = wall.time(), wall.weekday(), (wall.weekday() - 1) % 7
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        return (today in self.days and self.start <= clock) or (yesterday in self.days and clock < self.end)

    def next_opening(self, at: datetime) -> datetime:
        """Return the first instant from this one on that is inside."""
        if self.contains(at):
            return at
        openings = self._turns(at, self.start, range(-1, _REACH))
        return min(turn for turn in openings if turn >= at and self.contains(turn))

    def last_inside(self, at: datetime) -> datetime:
        """Return the last instant up to this one that is inside: `at`, or the microsecond before it closed."""
        if self.contains(at):
            return at
        closings = (turn - MICROSECOND for turn in self._turns(at, self.end, range(-_REACH, 2)))
        return max(last for last in closings if last <= at and self.contains(last))

    def _turns(self, at: datetime, clock: time, days: range) -> Iterator[datetime]:
        """Yield the instants around `at` when the clock shows a time of day, or jumps."""
        tz = zone(self.timezone)
        today, second = wall_at(at, tz).date(), at.replace(microsecond=0)
        for day in days:
            yield from passes(datetime.combine(today + day * DAY, clock), tz)
            begin, end = second + day * DAY, second + (day + 1) * DAY
            if offset_at(begin, tz) != offset_at(end, tz):
                yield change_between(begin, end, tz)

    def to_json(self) -> dict[str, str | list[str]]:
        """Write the window as plain values; `from_json` reads them back exactly."""
        return {
            "days": [DAYS[day] for day in sorted(self.days)],
            "from": _format_clock(self.start),
            "to": _format_clock(self.end),
            "timezone": self.timezone,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """Read the output of `to_json`, or the same form written by a person; days may be `"mon-fri"` too."""
        match {"days": "mon-sun", "timezone": "UTC"} | dict(value):
            case {"days": days, "from": str(start), "to": str(end), "timezone": str(timezone), **rest} if not rest:
                return cls(days=_days(days), start=_clock(start), end=_clock(end), timezone=timezone)
        raise Invalid(
            'A window is {"days": "mon-fri", "from": "09:00", "to": "17:00", "timezone": "UTC"}, '
            f"not {str(value)[:200]}."
        )


def _days(value: object) -> frozenset[int]:
    match value:
        case str():
            parts = value.split(",")
        case list():
            parts = [str(part) for part in value]
        case _:
            raise Invalid(f"The days of a window are a list like ['mon', 'fri'] or 'mon-fri', not {str(value)[:60]}.")
    return frozenset(day for part in parts for day in _day_range(part))


def _day_range(text: str) -> Iterator[int]:
    """`fri` is one day, `mon-fri` are five, `sat-mon` goes over the end of the week."""
    first, _, last = text.partition("-")
    begin, end = _day(first), _day(last or first)
    return ((begin + n) % 7 for n in range((end - begin) % 7 + 1))


def _day(name: str) -> int:
    try:
        return DAYS.index(name.strip().lower())
    except ValueError:
        raise Invalid(f"{name[:60]!r} is not a day; the days are {', '.join(DAYS)}.") from None


def _clock(text: str) -> time:
    try:
        return time.fromisoformat("00:00" if text == "24:00" else text)
    except ValueError:
        raise Invalid(f"{text[:60]!r} is not a time of day; write it like 09:00 or 17:30.") from None


def _format_clock(clock: time) -> str:
    return clock.isoformat("auto" if clock.second or clock.microsecond else "minutes")
