"""Creation of a job."""

from datetime import datetime
from uuid import UUID

from ostinato.core.lifecycle import due_times, next_time
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import AskedBy, Chance, Change, Definition, Facts, Job, SkipReason
from ostinato.core.schedule import Once, to_json


def create(
    job_id: UUID, definition: Definition, now: datetime, chance: Chance, by: str = "", bounded: bool = False
) -> Change:
    """Create a job. A job that is due at once gets its live row now; with a bounded queue its first run waits."""
    facts = Facts(created_at=now, updated_at=now, anchor=due_times.first_anchor(definition, now))
    draft = Draft(Job(job_id, definition, facts), (), now, chance, by)
    begin(draft, bounded)
    next_time.end_if_over(draft)
    if by or not draft.run_once:  # a job from `enqueue` has its own row, and names no other caller
        draft.tell("job.created", schedule=to_json(definition.schedule), anchor=draft.facts.anchor)
    return draft.change()


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
        next_time.name_next(draft, draft.now)


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
    next_time.name_next(draft, draft.now)


def _due_now(draft: Draft) -> bool:
    policies, now = draft.definition.policies, draft.now
    if policies.end_at is not None and policies.end_at < now:
        return False
    if policies.start_at is not None:
        just_before = now - due_times.INSTANT
        return policies.start_at == now == due_times.next_due(draft.definition, draft.facts, just_before)
    return policies.first_run.is_now
