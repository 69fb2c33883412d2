"""Failures of a fetch. Both kinds are retried; the kind shows where to look.

A message names the fault and its place: the page, the status and the first bytes of the answer, the field.
"""

from datetime import timedelta

from ostinato.core.errors import OstinatoError, StoreUnavailable, Unreachable
from ostinato.core.times import format_duration
from ostinato.task.signals import RetryLater


class TransientFailure(Exception):
    """The network, a timeout, 408, 425, 429 or 5xx: the same request may work later."""


class PermanentFailure(Exception):
    """A failure that needs a change of the source, the API or the table."""


class AskedToWait(RetryLater):
    """The API asked for a wait."""


def failure(error: OstinatoError, page: int, wait: timedelta | None = None) -> Exception:
    """Return the error of a run that failed at a page."""
    transient = isinstance(error, StoreUnavailable) or (isinstance(error, Unreachable) and error.transient)
    sentence = f"Page {page}: {error}"
    if transient and wait:
        return AskedToWait(wait, f"{sentence} The API asks to wait {format_duration(wait)}.")
    return TransientFailure(sentence) if transient else PermanentFailure(sentence)
