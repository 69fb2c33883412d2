"""Times and people in a sentence."""

from datetime import datetime, timedelta


def by(who: str) -> str:
    return f" by {who}" if who else ""


def clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


def between(since: datetime | None, until: datetime | None) -> str:
    """Write a stretch of time in words; None: unknown begin, or no end yet."""
    if since is None:
        return "yet" if until is None else f"before {clock(until)}"
    return f"since {clock(since)}" if until is None else f"between {clock(since)} and {clock(until)}"


def span(time: timedelta) -> str:
    """Write a duration to the second, or in milliseconds when shorter: `1 h 5 min`, `12 s`, `340 ms`."""
    seconds = time.total_seconds()
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    return " ".join([f"{count} {unit}" for count, unit in parts if count][:2])
