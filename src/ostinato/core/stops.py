"""The strength of a stop, and whether the work is known to be dead.

A run in a process is killed when it does not end within its grace. A coroutine is cancelled at its next `await`. A
thread cannot be killed: it ends when its code does. So a request to stop is no end; only the record of the run is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ostinato.core.account import Stopped
from ostinato.core.model import Live
from ostinato.core.outcome import OutcomeKind


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop of a run, in a sentence."""

    sentence: str
    dead: bool  # the work is known to have ended


ASKED: Final = (
    "asked to stop and still running. A process is killed after its grace; "
    "a thread cannot be killed and ends when its code does"
)
STILL_RUNNING: Final = Stop(f"The run is {ASKED}.", dead=False)
WITHDRAWN: Final = Stop("The run was withdrawn before it started.", dead=True)
UNSEEN: Final = Stop(
    "The record was ended, but the end of the run was not seen: it may still run. Its result is rejected.",
    dead=False,
)
RELEASED: Final = "Its first worker was asked to stop it, and may still run it; a late result is rejected."
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
    return Stop(f"{asked} runs are {ASKED}.", dead=False)
