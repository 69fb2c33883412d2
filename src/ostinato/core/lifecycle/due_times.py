"""The due times of a job: its schedule within its bounds.

The anchor is the instant from which an interval's periods are counted. A new anchor never makes a past time due.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from ostinato.core import schedule as when
from ostinato.core.model import Definition, Facts
from ostinato.core.policy import Backoff, within
from ostinato.core.schedule import Every

INSTANT = timedelta(microseconds=1)
# a row with run_at this near is queued at once, without WaitsFor.TIME; longer than the dispatcher's AHEAD (0.5 s)
FIRED_AHEAD = timedelta(seconds=1)
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)


def first_anchor(definition: Definition, now: datetime) -> datetime:
    """Return the anchor of a new job.

    An interval with a `start_at`, past or future, is counted from it; other jobs from now.
    """
    start, schedule = definition.policies.start_at, definition.schedule
    if start is not None and start < now and isinstance(schedule, Every):
        return start + (now - start) // schedule.period * schedule.period
    return anchor_from(definition, now)


def anchor_from(definition: Definition, now: datetime) -> datetime:
    """Return the anchor of a job that continues from now: due after one period, or at a future `start_at`."""
    start, schedule = definition.policies.start_at, definition.schedule
    if start is not None and start >= now and isinstance(schedule, Every):
        return start - schedule.period
    return now


def corrected_anchor(definition: Definition, facts: Facts, now: datetime) -> datetime:
    """Return the anchor, moved back if a fast clock set it in the future.

    An interval's anchor moves by whole periods, so its due times stay on the same grid. The next one may be up to a
    period late, but is never early. With `fixed_delay` there is no grid: the anchor becomes now.
    """
    start, schedule = definition.policies.start_at, definition.schedule
    if not isinstance(schedule, Every) or definition.policies.fixed_delay:
        return min(facts.anchor, now)
    earliest = now if start is None or start < now else start - schedule.period
    ahead = max((facts.anchor - earliest) // schedule.period, 0)
    return facts.anchor - ahead * schedule.period


def backoff_of(definition: Definition, facts: Facts) -> Backoff:
    """Return the backoff of a job.

    Unless the user set them, base and cap are at most the shortest gap of its schedule.
    """
    backoff = definition.policies.backoff
    if not backoff.within_period:
        return backoff
    return within(backoff, when.shortest_gap(definition.schedule, facts.anchor))


def next_due(definition: Definition, facts: Facts, after: datetime) -> datetime | None:
    """Return the first due time strictly after an instant, or None when the schedule is over."""
    after, last = _bounds(definition, after, LAST_INSTANT)
    due = when.next_after(definition.schedule, facts.anchor, after)
    return due if due is not None and due <= last else None


def newest_due(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> datetime | None:
    """Return the greatest due time d with floor < d <= at."""
    floor, at = _bounds(definition, floor, at)
    return when.latest_at_or_before(definition.schedule, facts.anchor, at, floor) if at > floor else None


def count_due(definition: Definition, facts: Facts, after: datetime, until: datetime) -> int:
    """Count the due times d with after < d <= until."""
    after, until = _bounds(definition, after, until)
    return when.count_between(definition.schedule, facts.anchor, after, until) if until > after else 0


def due_times(definition: Definition, facts: Facts, after: datetime) -> Iterator[datetime]:
    """Yield the due times strictly after an instant, in order."""
    after, last = _bounds(definition, after, LAST_INSTANT)
    return takewhile(lambda due: due <= last, when.due_times_after(definition.schedule, facts.anchor, after))


def backwards(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> Iterator[datetime]:
    """Yield the due times from the newest at or before `at` down to `floor` (exclusive)."""
    due = newest_due(definition, facts, at, floor)
    while due is not None:
        yield due
        due = newest_due(definition, facts, due - INSTANT, floor)


def _bounds(definition: Definition, after: datetime, until: datetime) -> tuple[datetime, datetime]:
    """Cut (after, until] to the part between `start_at` and `end_at`; a run-once has no such bounds."""
    start, end = definition.policies.start_at, definition.policies.end_at
    if not when.is_recurring(definition.schedule):
        return after, until
    after = after if start is None else max(after, start - INSTANT)
    return after, until if end is None else min(until, end)
