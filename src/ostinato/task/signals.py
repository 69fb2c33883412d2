"""Signals that a task raises or returns, and the conversion of its result or error to an Outcome.

raise GiveUp("the customer has left")        failed, without a retry
raise RetryLater("5m", "the API is busy")    failed, with a retry after 5 minutes
raise Defer("1h")                            back in the queue for an hour; uses no retry
"""

import inspect
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType

from ostinato.core.errors import BudgetSpent, Invalid
from ostinato.core.outcome import Begun, Completed, Deferred, Error, Failed, Outcome
from ostinato.core.payload import cut, encode_result
from ostinato.core.times import format_duration, parse_duration
from ostinato.task.context import Context
from ostinato.task.task import Task

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


# -- Conversion of a task's result or error to an Outcome, on the loop, on a thread and in a process

MESSAGE_LIMIT = 8 * 1024  # characters
TRACEBACK_LIMIT = 64 * 1024

COMPLETED = Completed()
NOT_AWAITED = "The task returned a coroutine without awaiting it; make it an `async def` that awaits it."

Now = Callable[[], datetime]

_hidden_files = {Task.call.__code__.co_filename}  # frames of these files do not help users


def hide_frames_of(file: str) -> None:
    """Leave a file that calls tasks out of tracebacks."""
    _hidden_files.add(file)


def of_value(value: object, context: Context, now: Now) -> Outcome:
    """Return the outcome of a task that returned a value."""
    if value is None:
        return COMPLETED
    if isinstance(value, Signal):
        return of_error(value, now)
    if inspect.iscoroutine(value):
        value.close()
        return Failed(Error("TypeError", NOT_AWAITED), final=True)
    kept = encode_result(value)
    if kept.warning is not None:
        context.log.warning(kept.warning)
    return Completed(kept.text)


def of_error(error: BaseException, now: Now) -> Outcome:
    """Return the outcome of a task that raised an error."""
    match error:
        case Defer():
            return Deferred(error.until_from(now()))
        case BudgetSpent():
            return Deferred(error.until, error.provider)
        case RetryLater():
            return Failed(described(error), retry_in=error.delay)
        case GiveUp():
            return Failed(described(error), final=True)
        case Begin():
            return Begun()
        case _:
            return Failed(described(error))


def of_failure(error: BaseException) -> Failed | None:
    """Return how a run fails that raised an error, without its description; None if the error is no failure."""
    if isinstance(error, Defer | BudgetSpent | Begin):
        return None
    return Failed(Error(type(error).__name__, ""), final=isinstance(error, GiveUp))


def described(error: BaseException) -> Error:
    """Return an exception as an Error for people."""
    return Error(type(error).__name__, cut(_message(error), MESSAGE_LIMIT), _traceback(error))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001  any error of a user's __str__
        return f"(its message cannot be shown: {type(second).__name__})"


def frames_of_task(error: BaseException) -> TracebackType | None:
    """Return the stack of an error from the task's first line on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in _hidden_files:
        frames = frames.tb_next
    return frames


def _traceback(error: BaseException) -> str | None:
    """Return the stack as text, from the task's first line on; None without a frame of the task."""
    frames = frames_of_task(error)
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if frames is None and before is None:
        return None
    try:
        return cut("".join(traceback.format_exception(type(error), error, frames)), TRACEBACK_LIMIT)
    except Exception:  # noqa: BLE001  it formats errors of users' classes
        return None
