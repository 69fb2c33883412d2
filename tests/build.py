"""Values for tests: sensible unless said otherwise.

    a_job(every=HOUR, overlap=Overlap.ALLOW, max_overlap=3, paused_at=NOW)

takes the fields of the definition, of its policies and of the facts by their names.
"""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID

from ostinato.chance import RandomChance
from ostinato.core.lifecycle import due_times
from ostinato.core.model import AskedBy, Definition, Execution, Facts, Job, Live
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import Policies
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
AHEAD = SECOND / 2  # how long before its time something may be fired

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
WORKER = UUID(int=7)

POLICIES = {field.name for field in fields(Policies)}
FACTS = {field.name for field in fields(Facts)}


class FixedChance(RandomChance):
    """Chance that is the same in every run."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)


CHANCE = FixedChance()


def a_definition(
    task: str = "work",
    schedule: Schedule | None = None,
    *,
    every: timedelta | None = None,
    cron: str | None = None,
    at: datetime | None = None,
    manual: bool = False,
    **given: object,
) -> Definition:
    """Every hour, unless another schedule is given."""
    policies = Policies(**{name: given.pop(name) for name in POLICIES & given.keys()})
    if schedule is None:
        schedule = _schedule(every, cron, at, manual)
    return Definition(task=task, schedule=schedule, policies=policies, **given)


def a_job(job_id: UUID | None = None, **given: object) -> Job:
    """Made just now, nothing has happened yet."""
    told = {name: given.pop(name) for name in FACTS & given.keys()}
    definition = a_definition(**given)
    facts = Facts(**{"created_at": NOW, "updated_at": NOW, "anchor": NOW} | told)
    if not {"next_due_at", "paused_at", "cancelled_at", "ended_as", "deleted_at"} & told.keys():
        facts.next_due_at = due_times.next_due(definition, facts, facts.last_due_at or facts.created_at)
        facts.computed_at = facts.created_at
    return Job(job_id or CHANCE.id(NOW), definition, facts)


def a_live(job: Job | None = None, *, running: bool = False, **given: object) -> Live:
    """The first attempt at the first occurrence: queued, or running."""
    job = job or a_job()
    held = {"worker_id": WORKER, "started_at": NOW, "version": 1, "fence": 1} if running else {}
    row = {
        "id": CHANCE.id(NOW), "job_id": job.id, "number": 1, "attempt": 0, "execution_number": 1,
        "asked": AskedBy.SCHEDULE, "due_at": NOW, "run_at": NOW, "queued_at": NOW,
        "queue": job.definition.queue, "priority": job.definition.priority, "task": job.definition.task,
    }  # fmt: skip
    return Live(**row | held | given)


def an_execution(job: Job | None = None, **given: object) -> Execution:
    """The first attempt at the first occurrence: it failed."""
    job = job or a_job()
    row = {
        "id": CHANCE.id(NOW), "job_id": job.id, "number": 1, "step": "", "attempt": 0, "execution_number": 1,
        "asked": AskedBy.SCHEDULE, "due_at": NOW, "run_at": NOW, "queued_at": NOW, "started_at": NOW,
        "finished_at": NOW, "outcome": OutcomeKind.FAILED, "task": job.definition.task, "queue": job.definition.queue,
        "worker_id": WORKER, "fence": 1, "version": 1, "args": None, "result": None, "error_kind": None,
        "error": None, "traceback": None, "failures": 0, "losses": 0, "releases": 0, "checkpoint": None, "by": "",
    }  # fmt: skip
    return Execution(**row | given)


def _schedule(every: timedelta | None, cron: str | None, at: datetime | None, manual: bool) -> Schedule:
    if manual:
        return Manual()
    if at is not None:
        return Once(at)
    return Cron(cron) if cron is not None else Every(every or HOUR)
