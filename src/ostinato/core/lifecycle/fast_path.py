"""The usual firing and the usual success, decided without a draft.

The plain firing: a recurring job without commands or live rows has one due time, and the next one has not come. The
rule queues it and names the next time. The plain success: a run has completed, no command has changed its job
meanwhile, and nothing else of the job is live. The rule counts it, and ends a run-once job.

`fire` and `settle` decide the same at many times the cost. They stay the rules, and tests/core/test_fast_path.py
compares these shortcuts with them.
"""

from datetime import datetime

from ostinato.core.lifecycle.draft import ALL_FACTS
from ostinato.core.lifecycle.due_times import FIRED_AHEAD, next_due
from ostinato.core.limits import is_limited
from ostinato.core.model import AskedBy, Chance, Change, Definition, Facts, Finished, Job, Live
from ostinato.core.outcome import Completed
from ostinato.core.policy import CatchUp
from ostinato.core.schedule import Cron, Every, Manual, Once

SCHEDULE = AskedBy.SCHEDULE  # a lookup in an Enum costs a call


def fire_plainly(job: Job, now: datetime, chance: Chance) -> Change | None:
    """Decide as `fire` does about a job without live rows; None: ask `fire`."""
    definition, facts, due = job.definition, job.facts, job.facts.next_due_at
    if due is None or due - now > FIRED_AHEAD or now - due > definition.policies.late_after:
        return None
    if _is_touched(facts) or (facts.last_due_at is not None and due <= facts.last_due_at):
        return None
    following = next_due(definition, facts, due) if _is_steady(definition) else None
    if following is None or following <= now:
        return None
    after = Facts(*ALL_FACTS(facts))
    after.last_number += 1
    after.last_execution_number += 1
    after.last_due_at, after.next_due_at, after.computed_at = due, following, now
    live = Live(
        chance.id(now), job.id, after.last_number, 0, after.last_execution_number, SCHEDULE, due, due, now,
        definition.queue, definition.priority, definition.task,
    )  # fmt: skip
    return Change(Job(job.id, definition, after), (live,))


def _is_touched(facts: Facts) -> bool:
    touched = facts.paused_at or facts.cancelled_at or facts.deleted_at or facts.ended_as or facts.reset_at
    return touched is not None


def _is_steady(definition: Definition) -> bool:
    """Return True if runs start at their due times, without window, jitter, delay or limit."""
    policies = definition.policies
    if policies.window is not None or policies.jitter or policies.fixed_delay or is_limited(policies):
        return False
    return isinstance(definition.schedule, Every | Cron)


def may_be_plain(finished: Finished) -> bool:
    """Return True if a success, by its policies, changes only counters; the job itself is not read."""
    definition = finished.definition
    if definition is None or type(finished.outcome) is not Completed or finished.live.slot is None:
        return False
    if finished.live.limit_key is not None or type(definition.schedule) is Manual:
        return False  # another run may wait for its place; a Manual has no next time
    policies = definition.policies
    return not policies.total_repeats and not policies.fixed_delay and policies.catch_up is not CatchUp.ALL


def last_time(definition: Definition) -> datetime | None:
    """Return the due time whose success ends the job; None for a job that continues."""
    schedule = definition.schedule
    return schedule.at if type(schedule) is Once else None
