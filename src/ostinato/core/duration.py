"""Durations as people write them: `30s`, `5m`, `6h`, `1d`, `2w`, `1h30m`, `500ms`, `1 hour 30 minutes`."""

import re
from datetime import date, timedelta
from decimal import Decimal

from ostinato.core.errors import Invalid

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
