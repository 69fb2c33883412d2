"""Values of `why`: the evidence and the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from ostinato.core.model import Event, Execution, Job, Live, Skip, Status

LATE: Final = timedelta(seconds=2)  # a start within this is on time


class Verdict(StrEnum):
    """The verdict about an occurrence."""

    ENDED = "ended"  # it ran, or was withdrawn: see its executions
    RUNNING = "running"
    QUEUED = "queued"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"  # its time came, and nothing was queued: paused, waiting for a reset, or no process was running
    BEFORE_CREATION = "before_creation"
    AFTER_THE_END = "after_the_end"
    NOTHING_DUE = "nothing_due"
    FORGOTTEN = "forgotten"  # its record was removed by retention


class Because(StrEnum):
    """The cause in an explanation."""

    NOBODY_RUNNING = "nobody_running"
    WORKERS_BUSY = "workers_busy"
    UNKNOWN_TASK = "unknown_task"
    QUEUE_NOT_SERVED = "queue_not_served"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_FULL = "queue_full"
    PREVIOUS_RUN = "previous_run"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    ENDED = "ended"
    MISSED = "missed"
    WINDOW = "window"
    BUDGET = "budget"
    FAILED = "failed"
    JITTER = "jitter"
    BACKOFF = "backoff"
    LIMIT = "limit"
    PROVIDER = "provider"
    STEPS = "steps"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, with its times; `by`: the caller behind it."""

    because: Because
    since: datetime | None = None
    until: datetime | None = None
    by: str = ""
    execution_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """A process and the time in which it worked. A silent one counts until its last renewal."""

    since: datetime
    until: datetime
    tasks: frozenset[str]
    queues: frozenset[str]  # none: all

    def at(self, instant: datetime) -> bool:
        return self.since <= instant <= self.until


@dataclass(frozen=True, slots=True)
class Evidence:
    """The database's records about one occurrence."""

    job: Job
    status: Status
    at: datetime  # the instant of the question
    now: datetime
    next_run_at: datetime | None = None
    attempts: tuple[Execution | Live, ...] = ()  # of the occurrence, the first one first
    skip: Skip | None = None  # instead of attempts
    in_the_way: Execution | Live | None = None  # the run for which it was skipped, or had to wait
    events: tuple[Event, ...] = ()  # commands to the job up to then, the newest first
    present: tuple[Presence, ...] = ()  # processes that worked around that time
    queue_paused: Event | None = None  # the pause of its queue while it waited
    queue_resumed_at: datetime | None = None
    budget_of: str | None = None  # the provider for whose budget the last attempt waits
    install: str = ""  # the command that brings what its task needs, if an extra does
    queue_bound: int | None = None  # the bound of its queue, if the queue is full now


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation. `due_at` is the due time of its occurrence, if there is one."""

    at: datetime
    verdict: Verdict
    due_at: datetime | None
    number: int | None
    causes: tuple[Cause, ...]
    sentences: tuple[str, ...]
    next_run_at: datetime | None
    attempts: tuple[Execution | Live, ...] = ()
    skip: Skip | None = None


Reason = tuple[Cause | None, str]


def absence(
    present: Sequence[Presence], since: datetime, until: datetime
) -> tuple[datetime | None, datetime | None] | None:
    """Return the time without workers that covers `since`: from the last worker's end to the next one's begin."""
    if any(each.at(since) for each in present):
        return None
    before = max((each.until for each in present if each.until < since), default=None)
    after = min((each.since for each in present if each.since > since), default=None)
    return before, after if after is not None and after <= until + LATE else None


def last_of(events: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in events if event.kind == kind), None)
