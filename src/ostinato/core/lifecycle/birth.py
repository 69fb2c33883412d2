"""How a job comes into the world."""

from datetime import datetime
from uuid import UUID

from ostinato.core.lifecycle import timeline
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import Asked, Change, Definition, Facts, Job, Luck
from ostinato.core.policy import FirstRun
from ostinato.core.schedule import Once


def create(job_id: UUID, definition: Definition, now: datetime, luck: Luck, by: str = "") -> Change:
    """A new job. One that is due when it is made is born with its live row."""
    facts = Facts(created_at=now, updated_at=now, anchor=timeline.anchor_for(definition, now))
    draft = Draft(Job(job_id, definition, facts), (), now, luck, by)
    begin(draft)
    draft.end_if_over()
    return draft.change()


def begin(draft: Draft) -> None:
    """Start the schedule: at once, or at its first time."""
    schedule, policies = draft.definition.schedule, draft.definition.policies
    if isinstance(schedule, Once) and schedule.at <= draft.now:
        start(draft, schedule.at)
    elif draft.recurring and policies.first_run is FirstRun.NOW and policies.start_at is None:
        start(draft, draft.now)
    else:
        draft.name_next(draft.now)


def start(draft: Draft, due: datetime) -> None:
    """Queue the occurrence of a due time that has come."""
    draft.queue_first(due, Asked.SCHEDULE)
    draft.dealt_with(due)
    draft.name_next(max(due, draft.now) if draft.recurring else due)
