"""When a job will come round next, as far as is known today."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from ostinato.core.lifecycle import timeline
from ostinato.core.model import Job
from ostinato.core.schedule import is_recurring

MOST_CLOSED: Final = 1_000  # openings of a window that are tried before a schedule is taken never to meet one


def upcoming(job: Job, now: datetime, n: int) -> list[datetime]:
    """The next times at which the schedule will run the job: within its bounds, its window and its repeats."""
    facts, policies = job.facts, job.policies
    if facts.paused_at or facts.ended_at or facts.cancelled_at:
        return []
    if policies.total_repeats:
        n = min(n, max(policies.total_repeats - facts.repeats_done, 0))
    return list(islice(_times(job, now), n))


def _times(job: Job, now: datetime) -> Iterator[datetime]:
    facts = job.facts
    after = max(now, facts.last_due_at or facts.anchor)
    if facts.next_due_at is not None and facts.next_due_at > now:
        yield from _inside(job, facts.next_due_at)
        after = facts.next_due_at
    closed = 0
    while closed < MOST_CLOSED and (due := timeline.next_due(job.definition, facts, after)) is not None:
        inside = list(_inside(job, due))
        yield from inside
        closed = 0 if inside else closed + 1
        after = due if inside else _before_opening(job, due)


def _inside(job: Job, due: datetime) -> Iterator[datetime]:
    """A due time outside the window is skipped; only a run-once waits for the opening."""
    window = job.policies.window
    if window is None or window.contains(due):
        yield due
    elif not is_recurring(job.schedule):
        yield window.next_opening(due)


def _before_opening(job: Job, due: datetime) -> datetime:
    window = job.policies.window
    return due if window is None else max(due, window.next_opening(due) - timeline.INSTANT)
