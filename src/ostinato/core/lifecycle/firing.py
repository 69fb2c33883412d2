"""Turning a due job into a queued execution and its next time.

A step sees the due times from `next_due_at` up to now. Usually that is one. After an absence there are
many: all but the newest are *missed* (a newer one has come), and so is the newest when it is older than
`late_after`. The catch-up policy chooses one of them; the rest become one skip. Then the overlap policy
decides whether the chosen one may be queued beside what is live.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ostinato.core.lifecycle import timeline
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.timeline import INSTANT
from ostinato.core.model import (
    WAITING_PLACE,
    Asked,
    Change,
    Ending,
    Execution,
    Job,
    Live,
    Luck,
    Skip,
    SkipReason,
)
from ostinato.core.policy import CatchUp, Overlap


@dataclass(frozen=True, slots=True)
class Dealt:
    """Due times that already have their record: looked up only at or before `last_due_at`."""

    times: frozenset[datetime] = frozenset()
    ranges: tuple[tuple[datetime, datetime], ...] = ()

    def covers(self, due: datetime) -> bool:
        return due in self.times or any(first <= due <= last for first, last in self.ranges)


NOTHING_DEALT = Dealt()


def fire(
    job: Job,
    lives: Sequence[Live],
    now: datetime,
    luck: Luck,
    dealt: Dealt = NOTHING_DEALT,
    last: Execution | None = None,
) -> Change:
    """Deal with what is due. `last` is the newest execution, needed when a retry budget was reset."""
    draft = Draft(job, lives, now, luck)
    due = draft.facts.next_due_at
    if due is None or not draft.open:
        draft.facts.next_due_at = None
    elif draft.facts.reset_at is not None:
        _after_reset(draft, last)
    elif draft.facts.last_due_at is not None and due <= draft.facts.last_due_at:
        _look_first(draft, due, dealt)
    else:
        _deal_with(draft, due)
    return draft.change()


def rewind(job: Job, lives: Sequence[Live], now: datetime, luck: Luck, ahead: Sequence[Skip] = ()) -> Change:
    """Compute the next time anew: the clock was set back, or the zone data changed.

    `ahead` are skips that reach beyond now: they were recorded by a clock that was wrong, and what has not
    come yet cannot have been skipped.
    """
    draft = Draft(job, lives, now, luck)
    for skip in ahead:
        draft.cut_back(skip)
    before = draft.facts.next_due_at
    if draft.open and before is not None and draft.facts.reset_at is None:
        if draft.definition.policies.fixed_delay:
            draft.facts.anchor = now
        draft.name_next(now if draft.facts.last_due_at is None else min(now, draft.facts.last_due_at))
    if draft.facts.next_due_at != before:
        draft.tell("job.rewound", before=before, after=draft.facts.next_due_at)
    return draft.change()


def _deal_with(draft: Draft, due: datetime) -> None:
    """From the first due time that nobody has dealt with up to now."""
    window = draft.definition.policies.window
    if due > draft.now:
        if window is None or window.contains(due):
            _place(draft, due)
        return
    newest = _newest(draft, due)
    chosen = _chosen(draft, due, newest)
    inside = None if chosen is None else _inside_window(draft, due, chosen)
    draft.skip_between(SkipReason.MISSED, due - INSTANT, (inside or chosen or newest + INSTANT) - INSTANT)
    if inside is not None:
        _place(draft, inside)
    if chosen is not None and chosen != inside:
        draft.skip_between(SkipReason.WINDOW, inside or chosen - INSTANT, chosen)
    if not draft.recurring and inside is None:
        draft.facts.ended_as = Ending.FAILED  # its one time was missed, and it may not be caught up
    draft.name_next(newest if chosen is None else chosen)
    draft.end_if_over()


def _newest(draft: Draft, due: datetime) -> datetime:
    """The newest due time up to now. A fixed delay has no grid: there is only the one."""
    if draft.definition.policies.fixed_delay:
        return due
    return timeline.newest_due(draft.definition, draft.facts, draft.now, due - INSTANT) or due


def _chosen(draft: Draft, due: datetime, newest: datetime) -> datetime | None:
    """The due time that the catch-up policy wants next."""
    policies, now = draft.definition.policies, draft.now
    if newest == due and now - due <= policies.late_after:
        return due  # only late
    if policies.catch_up_within is not None and newest < now - policies.catch_up_within:
        return None
    match policies.catch_up:
        case CatchUp.NONE:
            return newest if now - newest <= policies.late_after else None
        case CatchUp.LATEST:
            return newest
        case CatchUp.ALL:
            return _oldest_to_catch_up(draft, due, newest)


def _oldest_to_catch_up(draft: Draft, due: datetime, newest: datetime) -> datetime:
    policies = draft.definition.policies
    floor = due - INSTANT
    if policies.catch_up_within is not None:
        floor = max(floor, draft.now - policies.catch_up_within - INSTANT)
    missed = timeline.backwards(draft.definition, draft.facts, newest, floor)
    return min(islice(missed, policies.catch_up_limit), default=newest)


def _inside_window(draft: Draft, due: datetime, chosen: datetime) -> datetime | None:
    """The chosen due time, if the window is open then; else `latest` takes the newest one inside, if any."""
    policies = draft.definition.policies
    if policies.window is None or policies.window.contains(chosen):
        return chosen
    if policies.catch_up is not CatchUp.LATEST:
        return None
    earlier = timeline.newest_due(
        draft.definition, draft.facts, policies.window.last_inside(chosen), due - INSTANT
    )
    return earlier if earlier is not None and policies.window.contains(earlier) else None


def _place(draft: Draft, due: datetime) -> None:
    """Queue the occurrence of a due time, if the overlap policy lets it."""
    others = draft.occurrences()
    slot = draft.free_slot() if not others else _place_beside(draft, others)
    if slot is None:
        draft.skip(SkipReason.OVERLAP, due, due, 1, in_the_way=others[0].id)
    else:
        draft.queue_first(due, Asked.SCHEDULE, slot)
        draft.dealt_with(due)
    draft.name_next(due)
    draft.end_if_over()


def _place_beside(draft: Draft, others: Sequence[Live]) -> int | None:
    """Where a due time goes while another occurrence is live; None: nowhere."""
    match draft.definition.policies.overlap:
        case Overlap.ALLOW:
            return draft.free_slot()
        case Overlap.QUEUE_ONE:
            return WAITING_PLACE if draft.waiting() is None else None
        case Overlap.CANCEL_RUNNING:
            return _make_way(draft, others)
        case Overlap.SKIP:
            return None


def _make_way(draft: Draft, others: Sequence[Live]) -> int | None:
    """Stop what runs; what has not started yet gives its place up."""
    if draft.waiting() is not None:
        return None
    for live in others:
        if live.running:
            draft.ask_to_stop(live)
        else:
            draft.withdraw(live, SkipReason.OVERLAP)
    return draft.free_slot() if not draft.occurrences() else WAITING_PLACE


def _look_first(draft: Draft, due: datetime, dealt: Dealt) -> None:
    """At or before the greatest due time dealt with: only what has no record yet is fired."""
    if not dealt.covers(due):
        if due > draft.now or draft.now - due <= draft.definition.policies.late_after:
            _place(draft, due)
            return
        draft.skip(SkipReason.MISSED, due, due, 1, moves=False)
    draft.name_next(due)
    draft.end_if_over()


def _after_reset(draft: Draft, last: Execution | None) -> None:
    """The retry budget is whole again: the newest due time that has not completed runs."""
    facts = draft.facts
    if draft.lives:
        facts.next_due_at = None  # a run by hand is under way; its settle comes back to this
        return
    facts.reset_at = facts.period_start = None
    facts.period_failures = 0
    dealt = facts.last_due_at or facts.anchor
    newest = timeline.newest_due(draft.definition, facts, draft.now, dealt)
    if newest is not None:
        draft.skip_between(SkipReason.BUDGET, dealt, newest - INSTANT)
        _place(draft, newest)
    else:
        if last is not None:
            draft.queue_again(last, draft.now, slot=0, failures=0, losses=0)
        draft.name_next(dealt)
