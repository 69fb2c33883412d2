"""Time as people write it: durations, time zones, and the windows in which a job may run."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Self
from zoneinfo import ZoneInfo

import tzdata

from ostinato.core.errors import Invalid

# -- Durations as people write them: `30s`, `5m`, `6h`, `1d`, `2w`, `1h30m`, `500ms`, `1 hour 30 minutes`

MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(weeks=1)
CLOCKS_AGREE = SECOND  # two clocks that differ by at most this show the same time

CALENDAR = date.max - date.min

UNITS = {
    "w": WEEK,
    "d": DAY,
    "h": HOUR,
    "m": MINUTE,
    "s": SECOND,
    "ms": 1000 * MICROSECOND,
    "us": MICROSECOND,
}
NAMES = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "m": "minute",
    "s": "second",
    "ms": "millisecond",
    "us": "microsecond",
}

_SIZES = {word: UNITS[unit] for unit, name in NAMES.items() for word in (unit, name, name + "s")}

_PART = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]+)\s*", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,18})?", re.ASCII)


def parse_duration(value: str | int | float | timedelta) -> timedelta:
    """Read a duration; a bare number is seconds."""
    match value:
        case timedelta():
            return _checked(value, value)
        case str():
            return _checked(value, _from_text(value))
        case int() | float() if not isinstance(value, bool) and value == value:  # NaN is not equal to itself
            return _from_seconds(value)
        case _:
            raise _unreadable(value)


def format_duration(value: timedelta) -> str:
    """Return the shortest text that `parse_duration` reads back as exactly this."""
    return "".join(f"{count}{unit}" for count, unit in split_duration(value)) or "0s"


def split_duration(value: timedelta) -> list[tuple[int, str]]:
    """Split a duration into units, largest first; weeks only if nothing is left: 10 days are not `1w3d`."""
    rest = _checked(value, value)
    if rest and not rest % WEEK:
        return [(rest // WEEK, "w")]
    parts = []
    for unit in list(UNITS)[1:]:
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append((count, unit))
    return parts


def is_duration(text: str) -> bool:
    """Return True if a text looks like a duration, not like a cron expression or an instant."""
    text = text.strip().lower()
    if _NUMBER.fullmatch(text):
        return True
    return bool(text) and not _PART.sub("", text)


def _from_seconds(seconds: float) -> timedelta:
    if abs(seconds) > CALENDAR.total_seconds():
        raise _beyond(seconds)
    return _checked(seconds, timedelta(seconds=seconds))


def _from_text(text: str) -> timedelta:
    plain = text.strip().lower()
    if not is_duration(plain):
        raise _unreadable(text)
    if _NUMBER.fullmatch(plain):
        return _times(plain, SECOND, text)
    total = timedelta()
    for number, unit in _PART.findall(plain):
        if unit not in _SIZES:
            raise _unreadable(text)
        total += _times(number, _SIZES[unit], text)
    return total


def _times(number: str, unit: timedelta, text: str) -> timedelta:
    microseconds = Decimal(number) * (unit // MICROSECOND)
    if microseconds > CALENDAR // MICROSECOND:
        raise _beyond(text)
    return timedelta(microseconds=round(microseconds))


def _checked(written: object, value: timedelta) -> timedelta:
    if value < timedelta():
        raise Invalid(f"A duration cannot be negative: {_shown(written)}.")
    if value > CALENDAR:
        raise _beyond(written)
    return value


def _unreadable(written: object) -> Invalid:
    return Invalid(f"{_shown(written)} is not a duration; write it like 30s, 5m, 6h, 1d, 2w or 1h30m.")


def _beyond(written: object) -> Invalid:
    return Invalid(f"The duration {_shown(written)} goes beyond the calendar; write a shorter one.")


def _shown(written: object) -> str:
    text = repr(written) if isinstance(written, str) else str(written)
    return text if len(text) <= 60 else text[:60] + "…"


# -- Time zones: the wall time of an instant, and the instants of a wall time.
#
# Zone data comes from the `tzdata` package and nowhere else, so that all machines agree whatever their system
# has installed. An instant is an aware datetime in UTC; a *wall time* is a naive one, as a clock in the zone
# shows it.
#
# Most wall times happen once. When clocks go forward there is a *gap*: wall times that never happen. When
# they go back there is a *fold*: wall times that happen on two *passes*. Python tells them apart by asking for
# the offset of a wall time twice (PEP 495): `fold=0` answers with the offset before the change, `fold=1` with
# the one after it.
#
# No zone changes its offset twice within `CALM` (a test goes through them all), and each change is on a whole
# second. So if two instants at most that far apart have the same offset, it holds for all instants between them.

CALM = 6 * DAY
NO_PLACES = frozenset({"Factory", "localtime", "posixrules"})  # their meaning depends on the machine


@cache
def zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, such as `Europe/Paris`."""
    if name not in zone_names():  # this check also keeps `../../etc/passwd` from being opened
        raise Invalid(f"There is no time zone {name[:60]!r}; {_advice(name)}")
    from importlib.resources import files

    with files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@cache
def zone_names() -> frozenset[str]:
    """Return every name that `zone` knows."""
    from importlib.resources import files

    return frozenset(files(tzdata).joinpath("zones").read_text().split()) - NO_PLACES


def zone_data_version() -> str:
    """Return the IANA release of the zone data, such as `2026f`: when it changes, due times may change."""
    return tzdata.IANA_VERSION


def offset_at(at: datetime, tz: ZoneInfo) -> timedelta:
    """Return the offset of the wall clock from UTC at an instant."""
    return _offset(at.astimezone(tz))


def wall_at(at: datetime, tz: ZoneInfo) -> datetime:
    """Return the wall clock's time at an instant."""
    return at.astimezone(tz).replace(tzinfo=None)


def wall_span(at: datetime, tz: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the wall time of an instant by the offset after, and by the offset before, a fold it lies in.

    Wall times before the first are over on every pass; those after the second are to come on every pass.
    """
    local, clock = at.astimezone(tz), at.replace(tzinfo=None)
    return clock + _offset(local.replace(fold=1)), clock + _offset(local.replace(fold=0))


def passes(wall: datetime, tz: ZoneInfo) -> tuple[datetime, ...]:
    """Return the instants at which the clock shows a wall time: one; none in a gap; two in a fold, in order."""
    before, after = _offsets_around(wall, tz)
    if before == after:
        return (_instant(wall, before),)
    if before < after:
        return ()
    return _instant(wall, before), _instant(wall, after)


def gap_end(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the first instant after the gap in which a wall time lies."""
    before, after = _offsets_around(wall, tz)
    return change_between(_instant(wall, after), _instant(wall, before), tz)


def change_between(after: datetime, until: datetime, tz: ZoneInfo) -> datetime:
    """Return the instant in `(after, until]` from which the later offset holds; both are on whole seconds."""
    settled = offset_at(until, tz)
    seconds = range(1, (until - after) // SECOND + 1)
    found = bisect_left(seconds, True, key=lambda n: offset_at(after + n * SECOND, tz) == settled)
    return after + seconds[found] * SECOND


def _offsets_around(wall: datetime, tz: ZoneInfo) -> tuple[timedelta, timedelta]:
    return _offset(wall.replace(tzinfo=tz, fold=0)), _offset(wall.replace(tzinfo=tz, fold=1))


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or timedelta()


def _instant(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC, fold=0)


def _advice(name: str) -> str:
    from difflib import get_close_matches  # for mistakes only

    by_lower = {known.lower(): known for known in zone_names()}
    by_city = {known.lower().rpartition("/")[2]: known for known in sorted(zone_names())}
    asked = name[:60].lower().replace(" ", "_")
    close = get_close_matches(asked, by_lower, n=1) or get_close_matches(asked, by_city, n=1)
    if not close:
        return "use a name such as Europe/Paris or UTC."
    return f"did you mean {by_lower.get(close[0]) or by_city[close[0]]}?"


# -- Windows: the days and hours in which a job may run, by the clock on the wall.
#
# A window follows the wall clock alone: an hour that a fold shows twice is inside on both passes, an hour in a gap does
# not exist. So a window opens and closes only where the clock shows its opening or closing time, or where it jumps. The
# functions below look at those instants and ask `contains`.

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
