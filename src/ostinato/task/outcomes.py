"""Conversion of a task's result or error to an Outcome, on the loop, on a thread and in a process."""

import inspect
import traceback
from collections.abc import Callable
from datetime import datetime
from types import TracebackType

from ostinato.core.errors import BudgetSpent
from ostinato.core.outcome import Begun, Completed, Deferred, Error, Failed, Outcome
from ostinato.core.payload import cut, encode_result
from ostinato.task.context import Context
from ostinato.task.signals import Begin, Defer, GiveUp, RetryLater, Signal
from ostinato.task.task import Task

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
