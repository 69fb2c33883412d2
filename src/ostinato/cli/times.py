"""Instants and lengths of time as people read them: relative and absolute, in the zone of whoever reads."""

from datetime import datetime, timedelta
from typing import Final

from ostinato.core.duration import DAY, HOUR, MINUTE, SECOND

STEPS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
NO_TIME: Final = "–"


def when(text: str | None, now: datetime) -> str:
    """`in 12 min, 18:30`: an instant of an answer, seen from now."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{relative(at - now)}, {absolute(at, now)}"


def instant(text: str) -> datetime:
    """An instant of an answer, in the zone of whoever reads."""
    return datetime.fromisoformat(text).astimezone()


def relative(distance: timedelta) -> str:
    """`in 5 min`, `2 h ago`, `now`."""
    if abs(distance) < SECOND:
        return "now"
    size = roughly(abs(distance))
    return f"in {size}" if distance > timedelta() else f"{size} ago"


def roughly(length: timedelta) -> str:
    """`3 d`, `5 min`: in the largest unit that is not too coarse."""
    for unit, name in STEPS:
        if length >= unit:
            return f"{length // unit} {name}"
    return "0 s"


def absolute(at: datetime, now: datetime) -> str:
    """The clock today, the day beside it this year, else the whole date."""
    at, now = at.astimezone(), now.astimezone()
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%b %d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d %H:%M}"


def at_length(text: str | None, now: datetime) -> str:
    """`2026-11-16 18:30:00 CET (in 12 min)`: where there is room."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()} ({relative(at - now)})"


def took(milliseconds: float | None) -> str:
    """Write a duration."""
    if milliseconds is None:
        return NO_TIME
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
