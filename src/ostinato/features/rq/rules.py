"""Messages of a job in another queue (RQ): its next due time, and every execution that waits for a worker.

A pure function of the database's rows: any process can restore lost messages at any time. The ids are deterministic:
the same execution is always the same message.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from ostinato.core.model import Job, Live, WaitsFor

MAY_START: Final = (None, WaitsFor.TIME, WaitsFor.TASK)  # at its time; other rows wait for another event
URGENT: Final = 5  # below this priority a message goes to the front of its queue
PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")


class Message(NamedTuple):
    """One message: its id, its earliest time and its queue."""

    id: str
    job_id: UUID
    at: datetime
    queue: str
    urgent: bool = False


def message_id(job_id: UUID, number: int, attempt: int, step: str = "", live_id: UUID | None = None) -> str:
    """`sched-{job}-n{number}-rc{attempt}`; for a step of a workflow with its node in between."""
    if not step:
        return f"sched-{job_id}-n{number}-rc{attempt}"
    named = step if PLAIN.fullmatch(step) else str(live_id)
    return f"sched-{job_id}-n{number}-{named}-rc{attempt}"


def id_of(live: Live) -> str:
    """Return the message id of an execution."""
    return message_id(live.job_id, live.number, live.attempt, live.step, live.id)


def wanted(job: Job, lives: Sequence[Live], closed: Collection[str] = ()) -> list[Message]:
    """List the messages that should exist for a job; `closed` are the queues that start nothing now."""
    found = [
        Message(id_of(live), job.id, live.run_at, live.queue, live.priority < URGENT)
        for live in lives
        if live.worker_id is None and live.waits_for in MAY_START and live.queue not in closed
    ]
    due, definition = job.facts.next_due_at, job.definition
    if due is not None:
        following = message_id(job.id, job.facts.last_number + 1, 0)
        found.append(Message(following, job.id, due, definition.queue, definition.priority < URGENT))
    return found


def to_stop(lives: Sequence[Live]) -> list[str]:
    """List the messages of runs that were asked to stop."""
    return [id_of(live) for live in lives if live.worker_id is not None and live.cancel_asked_at is not None]


class Deed(Enum):
    """The action for an expected message."""

    KEEP = "keep"
    MOVE = "move"  # it waits for another time
    PUSH = "push"  # it waits for a time that has come
    PUT = "put"  # it is missing, or of no use any more


# From the delivery of a message to the claim, which is the first action of its run.
STARTING: Final = timedelta(seconds=15)


class SeenMessage(NamedTuple):
    """A message as its queue has it: its status, since when, and the second it waits for."""

    status: str | None = None  # None: the queue does not know it
    started_at: datetime | None = None
    second: int | None = None
    in_line: bool = False  # in the list that workers take from


def second_of(at: datetime) -> int:
    """Round a time up to a whole second: the queue cuts times, and no message may come early."""
    return -int(-at.timestamp() // 1)


def deed(message: Message, seen: SeenMessage, now: datetime) -> Deed:
    """Return the action for a message. A duplicate is harmless: its worker finds nothing to claim."""
    if seen.status is None:
        return Deed.PUT
    if seen.second is not None:
        if message.at <= now:
            return Deed.PUSH
        return Deed.KEEP if seen.second == second_of(message.at) else Deed.MOVE
    if seen.status == "started":
        fresh = seen.started_at is not None and abs(now - seen.started_at) < STARTING
        return Deed.KEEP if fresh else Deed.PUT
    return Deed.KEEP if seen.status == "queued" and seen.in_line else Deed.PUT
