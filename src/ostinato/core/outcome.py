"""Outcomes of runs. A run becomes one of these values first; then the rules act on it."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Error:
    """An error for people to read."""

    kind: str
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The task returned."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised. `retry_in` is the task's own wish (RetryLater); `final` spends all retries (GiveUp)."""

    error: Error
    retry_in: timedelta | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The task was still running at its timeout."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A person stopped this execution."""

    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """Its worker died or was cut off."""

    note: str = "its worker stopped renewing its lease"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Handed back by a worker that stops, as if it had never been claimed.

    `started`: its body has begun and was stopped. Under `on_lost = fail` that is a loss: it must not begin again.
    """

    started: bool = False


@dataclass(frozen=True, slots=True)
class Deferred:
    """The task asked for a later time: handed back until then. `budget`: the provider whose budget was spent."""

    until: datetime
    budget: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """The run of a workflow has begun: from here on nobody holds it, and it waits for its steps."""


Outcome = Completed | Failed | TimedOut | Cancelled | Lost | Interrupted | Deferred | Begun


def without_value(outcome: Outcome, refusal: str) -> Outcome:
    """Return the same outcome with a sentence in the place of what the database refuses to keep."""
    said = f"The value cannot be kept. {refusal}"
    match outcome:
        case Completed():
            return Completed(json.dumps(said))
        case Failed():
            return replace(outcome, error=Error("RowRefused", said))
        case Cancelled():
            return replace(outcome, note=said)
        case _:
            return outcome
