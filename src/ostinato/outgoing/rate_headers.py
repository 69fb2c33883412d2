"""Reading of `Retry-After`, `RateLimit-*` and their other spellings, within bounds.

A refusal (429, 503 …) with `Retry-After` asks for a wait. So does any answer that says that no requests are left until
a reset. A reset is written as seconds from now, or as seconds or milliseconds since 1970. A wait is at most an hour;
an unreadable value is ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_WAIT: Final = timedelta(hours=1)
LEAST_INSTANT: Final = 1_000_000_000  # seconds; a greater number is a time since 1970, not a delay
LEAST_MILLISECONDS: Final = 100_000_000_000
NUMBER: Final = re.compile(r"\s*(\d{1,15})(\.\d{1,9})?\s*")
ITEM: Final = re.compile(r"\b(r|t|remaining|reset)\s*=\s*(\d{1,15})", re.IGNORECASE)
REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """The wait that an answer asks for, and the number of requests left."""

    wait: timedelta | None = None
    remaining: int | None = None


NO_RATE_HEADERS: Final = RateHeaders()


def asked_of(status: int, headers: Mapping[str, str], now: datetime, longest: timedelta = LONGEST_WAIT) -> RateHeaders:
    """Read the headers of an answer. Header names are in lower case."""
    now = _date(headers.get("date", "")) or now  # the server's times are in its own clock
    remaining, reset = _left(headers)
    wait = _retry_after(headers.get("retry-after", ""), now) if status >= REFUSED else None
    if wait is None and reset is not None and (remaining == 0 or status == 429):
        wait = _reset(reset, now)
    return RateHeaders(None if wait is None else min(max(wait, timedelta(0)), longest), remaining)


def _retry_after(text: str, now: datetime) -> timedelta | None:
    seconds = _number(text)
    if seconds is not None:
        return _seconds(seconds)
    until = _date(text)
    return None if until is None else until - now


def _left(headers: Mapping[str, str]) -> tuple[int | None, float | None]:
    """Return the number of requests left, and the reset as written."""
    items = {name.lower(): float(value) for name, value in ITEM.findall(headers.get("ratelimit", ""))}
    remaining, reset = items.get("r", items.get("remaining")), items.get("t", items.get("reset"))
    for prefix in ("ratelimit-", "x-ratelimit-", "x-rate-limit-"):
        if remaining is None:
            remaining = _number(headers.get(f"{prefix}remaining", ""))
        if reset is None:
            reset = _number(headers.get(f"{prefix}reset", ""))
    return None if remaining is None else int(remaining), reset


def _reset(written: float, now: datetime) -> timedelta:
    if written < LEAST_INSTANT:
        return _seconds(written)
    seconds = written / 1000 if written > LEAST_MILLISECONDS else written
    return _seconds(seconds - now.timestamp())


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0), 1e9))


def _number(text: str) -> float | None:
    return float(text) if NUMBER.fullmatch(text) else None


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
