"""Instants in requests: text with a time zone or an offset."""

from datetime import UTC, datetime

from ostinato.core.bounds import EARLIEST


def read_instant(value: object) -> datetime:
    """Read an instant; ValueError says what is wrong with it."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("An instant is text like 2026-11-16T09:00:00Z.")
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is not an instant; write it like 2026-11-16T09:00:00Z.") from None
    if at.utcoffset() is None:
        raise ValueError(f"{value[:60]} has no time zone; end it with Z (UTC) or an offset like +02:00.")
    try:
        found = at.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value[:60]} goes beyond the calendar.") from None
    if found < EARLIEST:
        raise ValueError(f"{value[:60]} lies before 1900; say a later one.")
    return found
