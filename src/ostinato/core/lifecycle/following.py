"""Running because another job has completed."""

from collections.abc import Sequence
from datetime import datetime

from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import Asked, Change, Job, Live, Luck


def follow(job: Job, lives: Sequence[Live], now: datetime, luck: Luck) -> Change | None:
    """An occurrence for one completion of the other; None: there is no room for it yet, so it waits.

    One that is paused or over lets it pass, and says so: a resume never catches up.
    """
    draft = Draft(job, lives, now, luck)
    if not draft.open:
        draft.tell("job.passed_over", after=job.policies.after)
        return draft.change()
    place = draft.free_place()
    if place is None:
        return None
    draft.queue_first(now, Asked.HAND, place)
    return draft.change()
