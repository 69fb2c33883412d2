"""The course of a schedule: what comes next, and when it has come to its end.

An ending has two steps. `ended_as` is set when the schedule is over: it fires nothing more. `ended_at` is
set when the last live row has gone too: a person's run, or one beside the last, may still be under way.

The due times of a job: its schedule within its bounds.

An anchor is never before what it counts from: between it and the moment it was set, nothing is due.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from ostinato.core import schedule as when
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import AskedBy, Definition, Ending, Facts, SkipReason
from ostinato.core.policy import CatchUp
from ostinato.core.retry import Backoff, within
from ostinato.core.schedule import Every, Manual, Once


def name_next(draft: Draft, after: datetime) -> None:
    """Set the next due time, unless the settle of what is live must name it."""
    facts = draft.facts
    facts.computed_at, facts.next_due_at = draft.now, None
    if not draft.open or draft.its_time_has_come or (draft.fixed_delay and draft.lives):
        return
    due = next_due(draft.definition, facts, after)
    if due is not None and due <= draft.now and must_wait(draft):
        return
    facts.next_due_at = due


def must_wait(draft: Draft) -> bool:
    """With `catch_up: all` the missed due times run one after the other, none beside what is live."""
    return draft.definition.policies.catch_up is CatchUp.ALL and bool(draft.occurrences())


def go_on(draft: Draft) -> None:
    """An occurrence has ended: who waits may come in, the next time is named if nobody has, or it is the end."""
    facts = draft.facts
    let_in(draft)
    if draft.open and facts.next_due_at is None:
        if facts.reset_at is not None:
            wait_for_reset(draft)
        else:
            if draft.fixed_delay and not draft.lives:
                facts.anchor = draft.now
            name_next(draft, draft.goes_on_from)
    end_if_over(draft)


def let_in(draft: Draft) -> None:
    """Give the one in the waiting place its turn, if there is a slot."""
    waiting, slot = draft.waiting(), draft.free_slot()
    if waiting is not None and slot is not None and not draft.gone:
        draft.requeue(waiting, slot=slot)


def wait_for_reset(draft: Draft) -> None:
    """The retry budget is used up: nothing is due before it is whole again."""
    facts = draft.facts
    if facts.reset_at is not None and not draft.lives:
        facts.next_due_at, facts.computed_at = max(facts.reset_at, draft.now), draft.now


def close_gap(draft: Draft) -> None:
    """The schedule stops or changes here: what has come due and was not fired gets its record."""
    facts = draft.facts
    if facts.ended_as is not None or draft.gone:
        return
    if facts.paused_at is not None:
        skip_gap(draft, SkipReason.PAUSED)
    else:
        skip_gap(draft, SkipReason.MISSED if facts.reset_at is None else SkipReason.BUDGET)


def skip_first(draft: Draft, reason: SkipReason) -> None:
    """Record the first run of a new job as skipped, if it still waits for a place in its queue."""
    if draft.facts.first_run_waits:
        draft.skip(reason, draft.facts.anchor, draft.facts.anchor, 1)


def skip_gap(draft: Draft, reason: SkipReason) -> None:
    """Record the due times since the last one dealt with. A fixed delay has no grid, only its next time."""
    if not draft.fixed_delay:
        skip_first(draft, reason)
        draft.skip_between(reason, draft.dealt_until, draft.now)
        return
    due = draft.facts.next_due_at
    if due is not None and due <= draft.now and draft.facts.reset_at is None:
        draft.skip(reason, due, due, 1)


def conclude(draft: Draft, ending: Ending, reason: SkipReason) -> None:
    """The schedule is over. What it has waiting is withdrawn; what runs, or a person asked for, goes on."""
    for live in [live for live in draft.occurrences() if not live.running and live.asked is AskedBy.SCHEDULE]:
        draft.withdraw(live, reason)
    skip_gap(draft, reason)
    facts = draft.facts
    facts.ended_as, facts.next_due_at, facts.reset_at = ending, None, None


def end_if_over(draft: Draft) -> None:
    """A schedule without a next time and without anything live has come to its end."""
    facts = draft.facts
    if draft.lives or draft.gone or facts.ended_at is not None or facts.next_due_at or facts.reset_at:
        return
    if facts.ended_as is None and _may_still_come(draft):
        return
    facts.ended_at, facts.ended_as = draft.now, facts.ended_as or Ending.COMPLETED
    facts.paused_at = None


def _may_still_come(draft: Draft) -> bool:
    """Return True if a job without a next time may get one: by hand, or by a resume."""
    match draft.definition.schedule:
        case Manual():
            return True
        case Once():
            return not draft.its_time_has_come
        case _:
            return draft.facts.paused_at is not None


INSTANT = timedelta(microseconds=1)
FIRED_AHEAD = timedelta(seconds=1)  # a row that starts within this is already in the queue
FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)


def first_anchor(definition: Definition, now: datetime) -> datetime:
    """Return the anchor of a new job: `start_at`, past or future, is on its grid."""
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


def anchor_by(definition: Definition, facts: Facts, now: datetime) -> datetime:
    """Bring back an anchor that a wrong clock set, without moving the grid: by whole periods, and not before now.

    The next due time is then late by less than a period, and never early: the clock may have been right before.
    """
    start, schedule = definition.policies.start_at, definition.schedule
    if not isinstance(schedule, Every) or definition.policies.fixed_delay:
        return min(facts.anchor, now)
    earliest = now if start is None or start < now else start - schedule.period
    ahead = max((facts.anchor - earliest) // schedule.period, 0)
    return facts.anchor - ahead * schedule.period


def backoff_of(definition: Definition, facts: Facts) -> Backoff:
    """Return the backoff that a job goes by; one that names none waits at most a period."""
    backoff = definition.policies.backoff
    if not backoff.within_period:
        return backoff
    return within(backoff, when.shortest_gap(definition.schedule, facts.anchor))


def next_due(definition: Definition, facts: Facts, after: datetime) -> datetime | None:
    """The first due time strictly after an instant, or None when the schedule has come to its end."""
    after, last = _bounds(definition, after, LAST_INSTANT)
    due = when.next_after(definition.schedule, facts.anchor, after)
    return due if due is not None and due <= last else None


def newest_due(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> datetime | None:
    """The greatest due time d with floor < d <= at."""
    floor, at = _bounds(definition, floor, at)
    return when.latest_at_or_before(definition.schedule, facts.anchor, at, floor) if at > floor else None


def count_due(definition: Definition, facts: Facts, after: datetime, until: datetime) -> int:
    """Count the due times d with after < d <= until."""
    after, until = _bounds(definition, after, until)
    return when.count_between(definition.schedule, facts.anchor, after, until) if until > after else 0


def due_times(definition: Definition, facts: Facts, after: datetime) -> Iterator[datetime]:
    """Due times strictly after an instant, in their order."""
    after, last = _bounds(definition, after, LAST_INSTANT)
    return takewhile(lambda due: due <= last, when.due_times_after(definition.schedule, facts.anchor, after))


def backwards(definition: Definition, facts: Facts, at: datetime, floor: datetime) -> Iterator[datetime]:
    """Due times from the newest at or before `at` down to `floor` (exclusive)."""
    due = newest_due(definition, facts, at, floor)
    while due is not None:
        yield due
        due = newest_due(definition, facts, due - INSTANT, floor)


def _bounds(definition: Definition, after: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The part of (after, until] that lies between `start_at` and `end_at`; a run-once has no such bounds."""
    start, end = definition.policies.start_at, definition.policies.end_at
    if not when.is_recurring(definition.schedule):
        return after, until
    after = after if start is None else max(after, start - INSTANT)
    return after, until if end is None else min(until, end)
