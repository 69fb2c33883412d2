"""Signals that a task raises or returns instead of a result.

raise GiveUp("the customer has left")        failed, without a retry
raise RetryLater("5m", "the API is busy")    failed, with a retry after 5 minutes
raise Defer("1h")                            back in the queue for an hour; uses no retry
"""

from datetime import UTC, datetime, timedelta

from ostinato.core.duration import format_duration, parse_duration
from ostinato.core.errors import Invalid

Delay = str | float | timedelta


class Terminated(BaseException):
    """Raised inside a task in a process of its own to stop it. Clean up, and do not catch it."""


class Signal(Exception):
    """Base class of the signals."""


class Begin(Signal):
    """Signal of a task whose rules queue steps: release the run, and queue its first steps."""


class GiveUp(Signal):
    """Signal that the run has failed and a retry cannot help."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "The task gave up.")


class RetryLater(Signal):
    """Signal that the run has failed, with a retry after the delay if retries are left."""

    def __init__(self, delay: Delay, reason: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(reason or f"The task asked for a retry in {format_duration(self.delay)}.")


class Defer(Signal):
    """Signal to run this attempt at a later time, or after a delay, as if it had not started."""

    def __init__(self, until: datetime | Delay) -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise Invalid(f"The time {until} has no time zone; say which one is meant, for example UTC.")
        self.until = until.astimezone(UTC) if isinstance(until, datetime) else parse_duration(until)
        super().__init__(f"The task asked for a later time: {until}.")

    def until_from(self, now: datetime) -> datetime:
        """Return the instant; a delay beyond the calendar ends on its last day."""
        if isinstance(self.until, datetime):
            return self.until
        return now + min(self.until, datetime.max.replace(tzinfo=UTC) - now)
