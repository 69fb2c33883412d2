"""The plain success: what most runs come to, said without a draft.

A run has completed, nobody has touched its job meanwhile, and nothing else of the job is live. Then all there is to
do is to count it, and for a run-once job to end. `settle` says the same, at many times the cost: it stays the rule,
and tests/core/test_plain.py holds this shortcut to it.
"""

from datetime import datetime
from enum import Enum

from ostinato.core.model import Definition, Finished
from ostinato.core.outcome import Completed
from ostinato.core.policy import CatchUp
from ostinato.core.schedule import Cron, Every, Once


class Plain(Enum):
    """What a plain success does to its job."""

    ENDS = "ends"
    GOES_ON = "goes on"


def may_be_plain(finished: Finished) -> bool:
    """What can be said without a look at the job: its policies let a success change nothing but the counters."""
    definition = finished.definition
    if definition is None or type(finished.outcome) is not Completed or finished.live.slot is None:
        return False
    if finished.live.limit_key is not None:
        return False  # somebody may wait for its place
    policies = definition.policies
    return not policies.total_repeats and not policies.fixed_delay and policies.catch_up is not CatchUp.ALL


def plain(definition: Definition, last_due_at: datetime | None, *, names_next: bool) -> Plain | None:
    """What a success does to a job that nobody has paused, cancelled, deleted or ended; None: ask `settle`.

    The definition must be the current one, and no other row of the job may be live. `names_next`: it has a next time.
    """
    match definition.schedule:
        case Once(at):
            over = last_due_at is not None and last_due_at >= at and not names_next
            return Plain.ENDS if over else None
        case Every() | Cron() if names_next:
            return Plain.GOES_ON
        case _:
            return None
