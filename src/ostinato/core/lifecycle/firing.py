"""Firing: a due job becomes a queued execution and gets its next time.

A step sees the due times from `next_due_at` up to now. Usually that is one. After an absence there are
many: all but the newest are *missed* (a newer one has come), and so is the newest when it is older than
`late_after`. The catch-up policy chooses one of them; those before it are one skip. The window may
exclude the chosen one. Then the overlap policy decides whether it is queued while other occurrences are live.

A job with `after` fires when another job has completed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice

from ostinato.core.lifecycle import next_time
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.due_times import FIRED_AHEAD, INSTANT, backwards, corrected_anchor, newest_due, next_due
from ostinato.core.model import (
    RUN_SLOT,
    WAITING_PLACE,
    AskedBy,
    Chance,
    Change,
    Execution,
    Job,
    Live,
    Skip,
    SkipReason,
)
from ostinato.core.policy import CatchUp, Overlap


@dataclass(frozen=True, slots=True)
class Dealt:
    """Due times that already have their record: read only at or before `last_due_at`."""

    times: frozenset[datetime] = frozenset()
    ranges: tuple[tuple[datetime, datetime], ...] = ()

    def covers(self, due: datetime) -> bool:
        return due in self.times or any(first <= due <= last for first, last in self.ranges)


NOTHING_DEALT = Dealt()
Gap = tuple[datetime, datetime]  # due times after the first instant, up to the second


def fire(
    job: Job,
    lives: Sequence[Live],
    now: datetime,
    chance: Chance,
    dealt: Dealt = NOTHING_DEALT,
    last: Execution | None = None,
) -> Change:
    """Fire the due times of a job, or skip them.

    The store reads `dealt` when the next time is not after `last_due_at`. It reads `last`, the last attempt of the
    schedule's newest failed occurrence, when a reset has renewed the retry budget.
    """
    draft = Draft(job, lives, now, chance)
    due = draft.facts.next_due_at
    if due is None or not draft.open:
        draft.facts.next_due_at = None
    elif _too_early(draft, due):
        pass
    elif draft.facts.reset_at is not None:
        _after_reset(draft, last)
    elif draft.facts.last_due_at is not None and due <= draft.facts.last_due_at:
        _look_first(draft, due, dealt)
    elif due > now or draft.facts.first_run_waits:
        _place(draft, due)
        next_time.name_next(draft, due)
    else:
        _deal_with(draft, due)
    return draft.change()


def rewind(job: Job, lives: Sequence[Live], now: datetime, chance: Chance, ahead: Sequence[Skip] = ()) -> Change:
    """Compute the next time again: the clock was set back, or the zone data changed.

    `ahead` are skips that reach beyond now: a wrong clock recorded them, since a due time that has not come cannot
    have been skipped.
    """
    draft = Draft(job, lives, now, chance)
    facts = draft.facts
    before, first_run_waits = facts.next_due_at, facts.first_run_waits
    for skip in ahead:
        draft.cut_back(skip)
    _bring_back(draft)
    if draft.open and facts.reset_at is not None:
        next_time.wait_for_reset(draft)
    elif first_run_waits:
        facts.next_due_at = facts.anchor = min(before or now, now)
        facts.computed_at = now
    else:
        next_time.name_next(draft, draft.goes_on_from)
    next_time.end_if_over(draft)
    last = facts.last_due_at
    if facts.next_due_at != before or (last is not None and last - now > FIRED_AHEAD):
        draft.tell("job.rewound", before=before, after=facts.next_due_at, anchor=facts.anchor, last_due_at=last)
    return draft.change()


def _bring_back(draft: Draft) -> None:
    """Move values that a wrong clock put into the future back to now."""
    facts, now, period = draft.facts, draft.now, draft.definition.policies.retry_reset_period
    facts.anchor = corrected_anchor(draft.definition, facts, now)
    if facts.period_start is not None:
        facts.period_start = min(facts.period_start, now)
    if facts.reset_at is not None and period is not None:
        facts.reset_at = min(facts.reset_at, now + period)
    for live in [live for live in draft.occurrences() if not live.running]:
        if _comes_again(draft, live):
            draft.withdraw(live, None)
        elif live.queued_at > now and live.run_at > now:
            draft.requeue(live, queued_at=now, run_at=now + max(live.run_at - live.queued_at, timedelta(0)))
    next_time.let_in(draft)


def _comes_again(draft: Draft, live: Live) -> bool:
    """Return True if the schedule will reach its due time again; never for a first run that was wanted at once."""
    if live.attempt or live.asked is not AskedBy.SCHEDULE or live.due_at - draft.now <= FIRED_AHEAD:
        return False
    return next_due(draft.definition, draft.facts, live.due_at - INSTANT) == live.due_at


def _too_early(draft: Draft, due: datetime) -> bool:
    """Return True if a due time must not be fired ahead: overlap and skips are decided at its time."""
    ahead = due - draft.now
    return ahead > timedelta(0) and (
        ahead > FIRED_AHEAD
        or draft.facts.reset_at is not None
        or draft.outside_window(due)
        or bool(draft.occurrences())
    )


def _deal_with(draft: Draft, due: datetime) -> None:
    """Fire or skip the due times from the first one without a record up to now."""
    newest = due if draft.fixed_delay else _newest(draft, due - INSTANT) or due
    _deal_with_gaps(draft, due, newest, [(due - INSTANT, newest)], newest > due or _missed(draft, newest))


def _look_first(draft: Draft, due: datetime, dealt: Dealt) -> None:
    """Fire or skip due times before the greatest one dealt with, if they have no record yet.

    A wrong clock leaves such gaps between the records. Each gap is one skip, and catch-up applies; `all` runs only the
    newest, since a settle does not know where such a gap began.
    """
    last = draft.facts.last_due_at or due
    until = due if draft.fixed_delay else max(due, min(draft.now, last))
    gaps = _gaps(draft, due, until, dealt)
    newest = _newest_in(draft, gaps)
    if newest is None:
        next_time.name_next(draft, until)
        next_time.end_if_over(draft)
        return
    newer = not draft.fixed_delay and _newest(draft, newest) is not None
    _deal_with_gaps(draft, due, newest, gaps, newer or _missed(draft, newest), looked=True, newer=newer)


def _gaps(draft: Draft, due: datetime, until: datetime, dealt: Dealt) -> list[Gap]:
    """List the parts of [due, until] that have due times without a record."""
    if draft.fixed_delay:
        return [] if dealt.covers(due) else [(due - INSTANT, due)]
    gaps, after = list[Gap](), due - INSTANT
    for first, last in (
        *sorted([*((each, each) for each in dealt.times), *dealt.ranges]),
        (until + INSTANT, until),
    ):
        following = next_due(draft.definition, draft.facts, after)
        if following is None or following > until:
            break
        if following < first:
            gaps.append((after, min(first - INSTANT, until)))
        after = max(after, last)
    return gaps


def _newest_in(draft: Draft, gaps: Sequence[Gap]) -> datetime | None:
    if draft.fixed_delay:
        return gaps[-1][1] if gaps else None
    return newest_due(draft.definition, draft.facts, gaps[-1][1], gaps[-1][0]) if gaps else None


def _deal_with_gaps(
    draft: Draft,
    due: datetime,
    newest: datetime,
    gaps: Sequence[Gap],
    missed: bool,
    *,
    looked: bool = False,
    newer: bool = False,
) -> None:
    """Choose one due time of the gaps; those before it are skipped. `looked`: records may lie between and after them;
    `newer`: a later due time has come."""
    if missed and not looked and next_time.must_wait(draft):
        draft.facts.next_due_at = None
        return
    chosen = None if newer else _chosen(draft, due, newest, gaps, looked)
    inside = chosen if chosen is None else _inside_window(draft, due, chosen, gaps)
    first = inside or chosen
    _skip_gaps(draft, SkipReason.MISSED, gaps, due - INSTANT, newest if first is None else first - INSTANT)
    if inside is not None:
        _place(draft, inside)
    if chosen is not None and chosen != inside:
        _skip_gaps(draft, SkipReason.WINDOW, gaps, inside or chosen - INSTANT, chosen)
    if draft.fixed_delay:
        draft.facts.anchor = draft.now
    next_time.name_next(draft, draft.now if draft.fixed_delay else chosen or newest)
    next_time.end_if_over(draft)


def _skip_gaps(draft: Draft, reason: SkipReason, gaps: Sequence[Gap], after: datetime, until: datetime) -> None:
    for begin, end in gaps:
        if begin < until and end > after:
            draft.skip_between(reason, max(begin, after), min(end, until))


def _newest(draft: Draft, floor: datetime) -> datetime | None:
    return newest_due(draft.definition, draft.facts, draft.now, floor)


def _missed(draft: Draft, due: datetime) -> bool:
    return draft.now - due > draft.definition.policies.late_after


def _chosen(draft: Draft, due: datetime, newest: datetime, gaps: Sequence[Gap], looked: bool) -> datetime | None:
    """Return the due time that the catch-up policy chooses next."""
    policies = draft.definition.policies
    within = policies.catch_up_within
    oldest = due if within is None else max(due, draft.now - within)
    only_late = None if _missed(draft, newest) else newest
    match policies.catch_up:
        case CatchUp.NONE:
            return only_late
        case CatchUp.LATEST:
            return newest if newest >= oldest else only_late
        case CatchUp.ALL:
            missed = chain.from_iterable(
                backwards(draft.definition, draft.facts, end, max(begin, oldest - INSTANT))
                for begin, end in reversed(gaps)
            )
            return min(islice(missed, 1 if looked else policies.catch_up_limit), default=only_late)


def _inside_window(draft: Draft, due: datetime, chosen: datetime, gaps: Sequence[Gap]) -> datetime | None:
    """Return the chosen due time, if the window is open then; else with `latest` the newest one inside, if any."""
    if draft.outside_window(chosen) and draft.definition.policies.catch_up is not CatchUp.LATEST:
        return None
    inside = _newest_inside(draft, due - INSTANT, chosen)
    return inside if inside is not None and any(begin < inside <= end for begin, end in gaps) else None


def _newest_inside(draft: Draft, floor: datetime, newest: datetime) -> datetime | None:
    window, due = draft.definition.policies.window, newest
    while window is not None and draft.outside_window(due):
        earlier = newest_due(draft.definition, draft.facts, window.last_inside(due), floor)
        if earlier is None:
            return None
        due = earlier
    return due


def _place(draft: Draft, due: datetime) -> None:
    """Queue the occurrence of a due time, if the overlap policy lets it."""
    others = draft.occurrences()
    slot = _place_beside(draft, others) if others else RUN_SLOT
    if slot is None:
        draft.skip(SkipReason.OVERLAP, due, due, 1, in_the_way=others[0].id)
    else:
        draft.queue_first(due, AskedBy.SCHEDULE, slot)
        draft.dealt_with(due)


def _place_beside(draft: Draft, others: Sequence[Live]) -> int | None:
    """Return the slot of a due time while another occurrence is live; None: no slot."""
    if _could_exceed_repeats(draft, others):
        return None
    match draft.definition.policies.overlap:
        case Overlap.ALLOW:
            return draft.free_slot()
        case Overlap.QUEUE_ONE:
            return WAITING_PLACE if draft.waiting() is None else None
        case Overlap.CANCEL_RUNNING:
            return _make_way(draft, others)
        case Overlap.SKIP:
            return None


def _could_exceed_repeats(draft: Draft, others: Sequence[Live]) -> bool:
    """Return True if one more occurrence could exceed `total_repeats`."""
    total = draft.definition.policies.total_repeats
    under_way = sum(live.asked is AskedBy.SCHEDULE for live in others)
    return total > 0 and under_way > 0 and draft.facts.repeats_done + under_way >= total


def _make_way(draft: Draft, others: Sequence[Live]) -> int | None:
    """Ask running occurrences to stop; withdraw a waiting one, and return the place."""
    if draft.waiting() is not None:
        return None
    for live in others:
        if live.running:
            draft.stop(live)
        else:
            draft.withdraw(live, SkipReason.OVERLAP)
    return WAITING_PLACE if draft.occurrences() else RUN_SLOT


def _after_reset(draft: Draft, last: Execution | None) -> None:
    """Queue the newest due time that has not completed: a reset has renewed the retry budget."""
    facts = draft.facts
    if draft.lives:
        facts.next_due_at = None  # a run by hand is under way; its settle calls this rule again
        return
    facts.reset_at = facts.period_start = None
    facts.period_failures = 0
    dealt = draft.dealt_until
    newest = None if draft.fixed_delay else _newest(draft, dealt)
    inside = newest if newest is None else _newest_inside(draft, dealt, newest)
    if inside is not None:
        draft.skip_between(SkipReason.BUDGET, dealt, inside - INSTANT)
        _place(draft, inside)
    elif last is not None:
        draft.queue_again(last, draft.opening(draft.now), RUN_SLOT, failures=0, losses=0)
    if newest is not None:
        draft.skip_between(SkipReason.WINDOW, inside or dealt, newest)
    next_time.name_next(draft, newest or draft.goes_on_from)
    next_time.end_if_over(draft)


def follow(job: Job, lives: Sequence[Live], now: datetime, chance: Chance) -> Change | None:
    """Queue an occurrence for one completion of the other job; None: no place is free yet, so it waits.

    A job that is paused or over records an event instead: a resume never catches up.
    """
    draft = Draft(job, lives, now, chance)
    if not draft.open:
        draft.tell("job.passed_over", after=job.policies.after)
        return draft.change()
    place = draft.free_place()
    if place is None:
        return None
    draft.queue_first(now, AskedBy.HAND, place)
    return draft.change()
