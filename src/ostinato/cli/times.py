"""Text of instants and durations: relative and absolute, in the local time zone."""

from datetime import datetime, timedelta
from typing import Final

from ostinato.core.duration import DAY, HOUR, MINUTE, SECOND

STEPS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
NO_TIME: Final = "–"


def when(text: str | None, now: datetime) -> str:
    """Return an instant of an answer as `in 12 min, 18:30`."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{relative(at - now)}, {absolute(at, now)}"


def instant(text: str) -> datetime:
    """Read an instant of an answer, in the local time zone."""
    return datetime.fromisoformat(text).astimezone()


def relative(distance: timedelta) -> str:
    """Return `in 5 min`, `2 h ago` or `now`."""
    if abs(distance) < SECOND:
        return "now"
    size = roughly(abs(distance))
    return f"in {size}" if distance > timedelta() else f"{size} ago"


def roughly(length: timedelta) -> str:
    """Return a duration in its largest whole unit, such as `3 d` or `5 min`."""
    for unit, name in STEPS:
        if length >= unit:
            return f"{length // unit} {name}"
    return "0 s"


def absolute(at: datetime, now: datetime) -> str:
    """Return the time; add the day unless it is today, and the year unless it is this year."""
    at, now = at.astimezone(), now.astimezone()
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%b %d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d %H:%M}"


def at_length(text: str | None, now: datetime) -> str:
    """Return an instant in its long form: `2026-11-16 18:30:00 CET (in 12 min)`."""
    if text is None:
        return NO_TIME
    at = instant(text)
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()} ({relative(at - now)})"


def took(milliseconds: float | None) -> str:
    """Return a duration as text."""
    if milliseconds is None:
        return NO_TIME
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
