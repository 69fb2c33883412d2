"""The account of a run: its cost, and how it stopped."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.core.model import Live
from ostinato.core.outcome import OutcomeKind

MOST_COUNTERS: Final = 50
LONGEST_NAME: Final = 60

Counters = tuple[tuple[str, float], ...]  # names and figures


class Stopped(StrEnum):
    """The way in which a run that was asked to stop has ended."""

    COOPERATIVE = "cooperative"  # a thread: its task looked at `ctx.cancelled`, or ended by itself
    ASYNC = "async"  # on the loop: by a CancelledError
    TERMINATED = "terminated"  # a process: by SIGTERM, within the grace
    KILLED = "killed"  # a process: by SIGKILL


@dataclass(frozen=True, slots=True)
class Account:
    """Figures of a run beside its outcome; None where unknown."""

    cpu_ms: int | None = None
    memory_mb: float | None = None  # the highest of any one process of the run
    stopped: Stopped | None = None
    exit_code: int | None = None  # of a process that ended by itself
    items_crawled: int | None = None  # records that its task has seen, if it counts them
    items_indexed: int | None = None  # the new ones among them
    counters: Counters | None = None  # other counts, by name
    raised: str | None = None  # the class of the exception that its task raised, with its module
    traceparent: str | None = None  # its span in a distributed trace

    def to_json(self) -> str | None:
        """Write the figures as JSON text; None if every figure is unknown."""
        return account_text(
            self.cpu_ms, self.memory_mb, self.stopped, self.exit_code, self.items_crawled, self.items_indexed,
            self.counters, self.raised, self.traceparent,
        )  # fmt: skip

    @staticmethod
    def from_json(text: str | None) -> "Account":
        return NO_ACCOUNT if text is None else _account_of(text)


NO_ACCOUNT: Final = Account()


def class_path(error: BaseException) -> str:
    """Return the class of an exception as other programs find it: module and name."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def counted(before: Counters | None, counters: Mapping[str, Any]) -> Counters:
    """Merge reported counters into those of a run, by name; Invalid for a value that is no number."""
    for name, value in counters.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Invalid(f"The counter {name[:LONGEST_NAME]} must be a number, not {str(value)[:50]!r}.")
        if len(name) > LONGEST_NAME:
            raise Invalid(f"The name of a counter has at most {LONGEST_NAME} letters: {name[:20]}… has more.")
    known = {**dict(before or ()), **counters}
    if len(known) > MOST_COUNTERS:
        raise Invalid(f"A run has at most {MOST_COUNTERS} counters.")
    return tuple(known.items())


@lru_cache(1024)
def account_text(
    cpu_ms: int | None,
    memory_mb: float | None = None,
    stopped: Stopped | None = None,
    exit_code: int | None = None,
    items_crawled: int | None = None,
    items_indexed: int | None = None,
    counters: Counters | None = None,
    raised: str | None = None,
    traceparent: str | None = None,
) -> str | None:
    """Write an Account as text; most are alike, so a cache saves the writing."""
    known = {
        "cpu_ms": cpu_ms, "memory_mb": memory_mb, "stopped": stopped, "exit_code": exit_code,
        "items_crawled": items_crawled, "items_indexed": items_indexed,
        "counters": None if counters is None else dict(counters), "raised": raised,
        "traceparent": traceparent,
    }  # fmt: skip
    reported = {name: value for name, value in known.items() if value is not None}
    return json.dumps(reported, separators=(",", ":")) if reported else None


@lru_cache(1024)
def _account_of(text: str) -> Account:
    raw: dict[str, Any] = json.loads(text)
    stopped, counters = raw.get("stopped"), raw.get("counters")
    return Account(
        raw.get("cpu_ms"),
        raw.get("memory_mb"),
        None if stopped is None else Stopped(stopped),
        raw.get("exit_code"),
        raw.get("items_crawled"),
        raw.get("items_indexed"),
        None if counters is None else tuple(counters.items()),
        raw.get("raised"),
        raw.get("traceparent"),
    )


# -- The strength of a stop, and whether the work is known to be dead.
#
# A run in a process is killed when it does not end within its grace. A coroutine is cancelled at its next `await`. A
# thread cannot be killed: it ends when its code does. So a request to stop is no end; only the record of the run is
# one.


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop of a run, in a sentence."""

    sentence: str
    dead: bool  # the work is known to have ended


LIMITS_OF_A_STOP: Final = "A process is killed after its grace; a thread cannot be killed and ends when its code does."
STILL_RUNNING: Final = Stop(f"The run was asked to stop and is still running. {LIMITS_OF_A_STOP}", dead=False)
WITHDRAWN: Final = Stop("The run was withdrawn before it started.", dead=True)
UNSEEN: Final = Stop(
    "The record was ended, but the end of the run was not seen: it may still run. Its result is rejected.",
    dead=False,
)
RELEASED: Final = "Its first worker was asked to stop it, but may still run it. A late result is rejected."
ENDED: Final = {
    Stopped.COOPERATIVE: Stop("The run was asked to stop, and its thread ended by itself.", dead=True),
    Stopped.ASYNC: Stop("The coroutine of the run was cancelled, and ended.", dead=True),
    Stopped.TERMINATED: Stop("The process of the run was asked to stop (SIGTERM), and ended.", dead=True),
    Stopped.KILLED: Stop("The process of the run was killed (SIGKILL).", dead=True),
}


def stop_of(outcome: str | None, stopped: str | None, *, asked: bool, started: bool) -> Stop | None:
    """Tell how a run was stopped; None if it was not."""
    if outcome is None:
        return STILL_RUNNING if asked else None
    if stopped is not None:
        return ENDED[Stopped(stopped)]
    if outcome != OutcomeKind.CANCELLED:
        return None
    return UNSEEN if started else WITHDRAWN


def stop_of_job(lives: Sequence[Live]) -> Stop | None:
    """Tell that runs of a job were asked to stop and still run; None if there are none."""
    asked = sum(live.running and live.cancel_asked_at is not None and not live.step for live in lives)
    if asked < 2:
        return STILL_RUNNING if asked else None
    return Stop(f"{asked} runs were asked to stop and are still running. {LIMITS_OF_A_STOP}", dead=False)
