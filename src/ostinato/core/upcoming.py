"""Forecast of a job's next due times."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ostinato.core.lifecycle.due_times import INSTANT, next_due
from ostinato.core.model import Job
from ostinato.core.schedule import is_recurring
from ostinato.core.searching import DueTimes, Expired, no_limit, search

MOST_CLOSED: Final = 1_000  # a schedule that misses so many openings of its window is taken to miss all


def upcoming(job: Job, now: datetime, n: int) -> list[datetime]:
    """List the next times at which the schedule will run the job: within its bounds, its window and its repeats."""
    return foreseen(job, now, n, no_limit).times


def foreseen(job: Job, now: datetime, n: int, expired: Expired) -> DueTimes:
    """Search for the times of `upcoming` until the search expires."""
    facts, policies = job.facts, job.policies
    if facts.paused_at or facts.ended_at or facts.cancelled_at:
        return DueTimes([], complete=True)
    if policies.total_repeats:
        n = min(n, max(policies.total_repeats - facts.repeats_done, 0))
    return search(_times(job, now), n, expired)


def _times(job: Job, now: datetime) -> Iterator[datetime | None]:
    """Yield each time, and None for each due time that the window skips."""
    facts = job.facts
    after = max(now, facts.last_due_at or facts.anchor)
    if facts.next_due_at is not None and facts.next_due_at > now:
        yield from _inside(job, facts.next_due_at)
        after = facts.next_due_at
    closed = 0
    while closed < MOST_CLOSED and (due := next_due(job.definition, facts, after)) is not None:
        inside = list(_inside(job, due))
        yield from inside or (None,)
        closed = 0 if inside else closed + 1
        after = due if inside else _before_opening(job, due)


def _inside(job: Job, due: datetime) -> Iterator[datetime]:
    """Yield a due time inside the window; one outside is skipped, but a run-once waits for the opening."""
    window = job.policies.window
    if window is None or window.contains(due):
        yield due
    elif not is_recurring(job.schedule):
        yield window.next_opening(due)


def _before_opening(job: Job, due: datetime) -> datetime:
    window = job.policies.window
    return due if window is None else max(due, window.next_opening(due) - INSTANT)
