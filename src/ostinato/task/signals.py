"""Signals that a task raises or returns instead of a result.

raise GiveUp("the customer is gone")         failed, and not tried again
raise RetryLater("5m", "the API is busy")    failed, and tried again after 5 minutes; spends a retry
raise Defer("1h")                            not now: put back in the queue until then; spends nothing
"""

from datetime import UTC, datetime, timedelta

from ostinato.core.duration import format_duration, parse_duration
from ostinato.core.errors import Invalid

Delay = str | float | timedelta


class Terminated(BaseException):
    """Raised inside a task in a process of its own that is asked to stop. Clean up, and let it pass."""


class Signal(Exception):
    """The root of what a task may say instead of a result."""


class Begin(Signal):
    """For the task `workflow`: let go of the run, and queue its first steps."""


class GiveUp(Signal):
    """This will not work, however often it is tried."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "The task gave up.")


class RetryLater(Signal):
    """This did not work; try again after the delay, if retries are left."""

    def __init__(self, delay: Delay, reason: str = "") -> None:
        self.delay = parse_duration(delay)
        super().__init__(reason or f"The task asked to be tried again in {format_duration(self.delay)}.")


class Defer(Signal):
    """Not now: run this attempt at that time, or after that delay, as if it had not started."""

    def __init__(self, until: datetime | Delay) -> None:
        if isinstance(until, datetime) and until.tzinfo is None:
            raise Invalid(f"The time {until} has no time zone; say which one is meant, for example UTC.")
        self.until = until.astimezone(UTC) if isinstance(until, datetime) else parse_duration(until)
        super().__init__(f"The task asked for a later time: {until}.")

    def until_from(self, now: datetime) -> datetime:
        """The instant that is meant; a delay beyond the calendar is its last day."""
        if isinstance(self.until, datetime):
            return self.until
        return now + min(self.until, datetime.max.replace(tzinfo=UTC) - now)
