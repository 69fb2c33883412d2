"""The status of a job, derived from its facts and live rows. The view `job_status` says the same in SQL.

`allowed` lists the commands of a status, for pages and lists. The commands check again, under the job's lock.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from ostinato.core.model import AskedBy, Job, Live, Status, WaitsFor
from ostinato.core.schedule import Manual, is_recurring

WAITING_FOR_A_WORKER = (None, WaitsFor.TASK, WaitsFor.LIMIT)


def status(job: Job, lives: Sequence[Live]) -> Status:
    """Return the first status whose condition is true."""
    facts = job.facts
    if facts.cancelled_at is not None:
        return Status.CANCELLED
    if any(live.running for live in lives):
        return Status.RUNNING
    if facts.ended_at is not None and facts.ended_as is not None:
        return Status(facts.ended_as)
    waiting = [live for live in lives if live.waits_for in WAITING_FOR_A_WORKER]
    by_hand = not _asked_by_schedule(job, waiting)
    if facts.paused_at is not None and not (waiting and by_hand):
        return Status.PAUSED
    if waiting:
        return Status.PENDING if by_hand else Status.QUEUED
    if isinstance(job.schedule, Manual) and not lives:
        return Status.PENDING
    return Status.SCHEDULED


def next_run_at(job: Job, lives: Iterable[Live]) -> datetime | None:
    """Return the next start of this job, as far as known."""
    facts = job.facts
    if facts.paused_at or facts.ended_at or facts.cancelled_at:
        return None
    times = [live.run_at for live in lives if not live.running]
    if facts.next_due_at is not None:
        times.append(facts.next_due_at)
    return min(times, default=None)


def _asked_by_schedule(job: Job, waiting: Iterable[Live]) -> bool:
    return is_recurring(job.schedule) and not any(_asked_by_hand(live) for live in waiting)


def _asked_by_hand(live: Live) -> bool:
    """Return True for a run by hand. A further attempt with nothing spent is a retry by hand, or after a reset."""
    retried = live.attempt > 0 and live.failures == live.losses == 0
    return live.asked is AskedBy.HAND or retried


ALIVE: Final = frozenset({Status.PENDING, Status.SCHEDULED, Status.QUEUED, Status.RUNNING})
ENDED: Final = frozenset({Status.COMPLETED, Status.FAILED})
ALLOWED: Final = {  # in the order in which they are offered
    "run": frozenset(Status) - {Status.CANCELLED},
    "retry": frozenset({Status.FAILED}),
    "restart": ENDED,
    "pause": ALIVE,
    "resume": frozenset({Status.PAUSED}),
    "cancel": ALIVE | {Status.PAUSED},
    "delete": frozenset(Status),
}


def allowed(status: Status, *, is_paused: bool = False) -> tuple[str, ...]:
    """List the commands of a job in this status. A paused job may still run, or be run by hand."""
    paused = is_paused and status is not Status.CANCELLED
    by_pause = Status.PAUSED if paused else status
    return tuple(
        command
        for command, states in ALLOWED.items()
        if (by_pause if command in ("pause", "resume") else status) in states
    )
