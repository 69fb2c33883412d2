"""The steps of a run: executions of their own that a task queues instead of doing the work itself.

A run is a live row of its job that no worker holds. It waits for its steps, keeps the job's slot, and stores its
progress in its checkpoint. A step is a live row of its own, without a slot, with the run's number and a name. Workers
claim and settle it like any other row. When no step is live any more, the run is over, and its outcome is settled like
any other. Counters, retries and the schedule follow the run alone.

    claimed ──► Begun ──► waits for its steps ──► step settled ──► other steps queued
                                    ▲                   │
                                    └───────────────────┴─ none live any more ──► Completed, Failed, TimedOut, Cancelled

The rules of its task decide which steps a run has, and its outcome. The store reads what they need in the transaction
(a `RunPlan`). A process without these rules leaves the run to others. A run in progress finishes when its job is
paused, as every run does.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import Execution, Live
from ostinato.core.outcome import Deferred, Interrupted, Lost, Outcome, Release

LEAST_DEFERRAL: Final = timedelta(seconds=1)

Over = tuple[Live, Outcome] | None  # the run and its outcome; None while it goes on
TimeOut = Callable[[Draft, Live], Over]


class RunPlan(Protocol):
    """The rules of a task about one run, with what they need of the database. They are pure."""

    def begin(self, draft: Draft, run: Live) -> Over:
        """Begin a run that its worker has released: queue its first steps."""
        ...

    def step_ended(self, draft: Draft, run: Live, step: Live, outcome: Outcome) -> Over:
        """Apply the outcome of a step, and queue the steps after it."""
        ...


def hand_back(draft: Draft, step: Live, outcome: Interrupted | Deferred) -> None:
    """Return a step to the queue; no retry is used."""
    at = max(outcome.until, draft.now + LEAST_DEFERRAL) if isinstance(outcome, Deferred) else step.run_at
    draft.hand_back(step, at)


def end(draft: Draft, step: Live, outcome: Outcome) -> Execution:
    """Move a step into history; a released one whose run has stopped is called off."""
    if isinstance(outcome, Lost):
        draft.tell(
            "execution.lost", step.id, number=step.number, attempt=step.attempt, note=outcome.note, step=step.step
        )
    return draft.call_off(step, "") if isinstance(outcome, Release) else draft.end(step, outcome)
