"""The start of a schedule, its next time, and its end.

An ending has two steps. `ended_as` is set when the schedule is over: it fires nothing more. `ended_at` is
set when no row is live any more: a run by hand, or one beside the last, may still be under way.
"""

from datetime import datetime

from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.due_times import INSTANT, next_due
from ostinato.core.model import AskedBy, Ending, SkipReason
from ostinato.core.policy import CatchUp
from ostinato.core.schedule import Manual, Once


def begin(draft: Draft, bounded: bool = False) -> None:
    """Start the schedule: at once, or at its first time. The dispatcher fires a first run into a bounded queue."""
    schedule = draft.definition.schedule
    if isinstance(schedule, Once) and schedule.at <= draft.now:
        start(draft, schedule.at)
    elif draft.recurring and _due_now(draft):
        if bounded and draft.facts.anchor == draft.now and not draft.outside_window(draft.now):
            draft.facts.next_due_at = draft.facts.computed_at = draft.now
        else:
            start(draft, draft.now)
    else:
        name_next(draft, draft.now)


def start(draft: Draft, due: datetime) -> None:
    """Queue the occurrence of a due time that has come."""
    place = draft.free_place()
    if draft.outside_window(due):
        draft.skip(SkipReason.WINDOW, due, due, 1)
    elif place is None:
        draft.skip(SkipReason.OVERLAP, due, due, 1, in_the_way=draft.occurrences()[0].id)
    else:
        draft.queue_first(due, AskedBy.SCHEDULE, place)
        draft.dealt_with(due)
    name_next(draft, draft.now)


def _due_now(draft: Draft) -> bool:
    policies, now = draft.definition.policies, draft.now
    if policies.end_at is not None and policies.end_at < now:
        return False
    if policies.start_at is not None:
        just_before = now - INSTANT
        return policies.start_at == now == next_due(draft.definition, draft.facts, just_before)
    return policies.first_run.is_now


def name_next(draft: Draft, after: datetime) -> None:
    """Set the next due time, unless the settle of a live occurrence must name it."""
    facts = draft.facts
    facts.computed_at, facts.next_due_at = draft.now, None
    if not draft.open or draft.its_time_has_come or (draft.fixed_delay and draft.lives):
        return
    due = next_due(draft.definition, facts, after)
    if due is not None and due <= draft.now and must_wait(draft):
        return
    facts.next_due_at = due


def must_wait(draft: Draft) -> bool:
    """Return True while a live occurrence keeps missed due times waiting: `catch_up: all` runs them one by one."""
    return draft.definition.policies.catch_up is CatchUp.ALL and bool(draft.occurrences())


def go_on(draft: Draft) -> None:
    """Continue after an occurrence has ended: start the waiting one, name the next time, or end the schedule."""
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
    """Move the row in the waiting place to a free slot, if there is one."""
    waiting, slot = draft.waiting(), draft.free_slot()
    if waiting is not None and slot is not None and not draft.gone:
        draft.requeue(waiting, slot=slot)


def wait_for_reset(draft: Draft) -> None:
    """Set the next time to the reset of the retry budget; nothing is due before."""
    facts = draft.facts
    if facts.reset_at is not None and not draft.lives:
        facts.next_due_at, facts.computed_at = max(facts.reset_at, draft.now), draft.now


def close_gap(draft: Draft) -> None:
    """Record the due times that were not fired, since the schedule stops or changes here."""
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
    """End the schedule: withdraw its queued rows. Running attempts and runs by hand continue."""
    for live in [live for live in draft.occurrences() if not live.running and live.asked is AskedBy.SCHEDULE]:
        draft.withdraw(live, reason)
    skip_gap(draft, reason)
    facts = draft.facts
    facts.ended_as, facts.next_due_at, facts.reset_at = ending, None, None


def end_if_over(draft: Draft) -> None:
    """End the job if it has no next time and no live row."""
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
