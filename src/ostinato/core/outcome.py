"""Outcomes of runs. A run becomes one of these values first; then the rules act on it.

An outcome that ends the execution has a `kind`, and an `error` unless it completed. One without a kind is a release:
the execution returns to the queue, or waits.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final


class OutcomeKind(StrEnum):
    """The kind of an execution's end, as history keeps it."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_failure(self) -> bool:
        return self in FAILURES


FAILURES: Final = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST)


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

    kind: ClassVar = OutcomeKind.COMPLETED
    error: ClassVar = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised. `retry_in` is the task's own wish (RetryLater); `final` spends all retries (GiveUp)."""

    error: Error
    retry_in: timedelta | None = None
    final: bool = False

    kind: ClassVar = OutcomeKind.FAILED


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The task was still running at its timeout."""

    after: timedelta

    kind: ClassVar = OutcomeKind.TIMED_OUT

    @property
    def error(self) -> Error:
        return Error("TimedOut", f"still running after {self.after.total_seconds():g} s")


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A person stopped this execution."""

    by: str = ""
    note: str = ""

    kind: ClassVar = OutcomeKind.CANCELLED

    @property
    def error(self) -> Error:
        return Error("Cancelled", self.note)


@dataclass(frozen=True, slots=True)
class Lost:
    """Its worker died or was cut off."""

    note: str = "its worker stopped renewing its lease"

    kind: ClassVar = OutcomeKind.LOST

    @property
    def error(self) -> Error:
        return Error("Lost", self.note)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stop of the worker: the run returns to the queue, as if it had never been claimed.

    `started`: its body has begun and was stopped. Under `on_lost = fail` it then ends as lost: it must not begin again.
    """

    started: bool = False

    kind: ClassVar = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The task asked for a later time: the run waits in the queue. `budget`: the provider whose budget was spent."""

    until: datetime
    budget: str = ""

    kind: ClassVar = None


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of a run with steps: from here on no worker holds it, and it waits for its steps."""

    kind: ClassVar = None


End = Completed | Failed | TimedOut | Cancelled | Lost
Release = Interrupted | Deferred | Begun
Outcome = End | Release


def without_value(outcome: Outcome, refusal: str) -> Outcome:
    """Return the same outcome with a sentence in the place of the value that the database refuses."""
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
