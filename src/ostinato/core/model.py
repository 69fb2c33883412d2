"""The nouns: jobs, live rows, executions and skips, and the change that a rule returns; their ids.

jobs        what is to come   Job = Definition (as people wrote it) + Facts (its state)
    live        what is now       Live, one per queued or running execution
    executions  what has been     Execution, written once, at settle

A rule (core/lifecycle) takes these and returns a `Change`. The store saves it in the transaction that locked the
rows the rule has read. Nothing here knows how the values are stored.
"""

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol
from uuid import UUID, SafeUUID

from ostinato.core.hot import hot_dataclass
from ostinato.core.outcome import Error, Outcome, OutcomeKind
from ostinato.core.policy import Policies
from ostinato.core.schedule import Schedule

JSON: Final = "json"  # marks the fields that hold JSON (store/columns.py)
Json = Annotated[str, JSON]  # carried as text: Ostinato never looks inside
# An execution and its fence: one that was released by hand may come back to a worker before its old run has ended.
FencedId = tuple[UUID, int]

RUN_SLOT = 0
WAITING_PLACE = -1  # the one place beside the slots: taken by queue_one, cancel_running and a run by hand
MAX_LOSSES = 3  # an occurrence that was lost with three workers does not get a fourth


class Chance(Protocol):
    """A source of chance: rules take it as an argument."""

    def fraction(self) -> float:
        """Return a number in [0, 1)."""

    def id(self, now: datetime) -> UUID:
        """Make an id; later ids are greater."""

    def ids(self, now: datetime, count: int) -> list[UUID]:
        """Make many ids, in their order."""

    def ids_as_bytes(self, now: datetime, count: int) -> list[bytes]:
        """Make the same ids as the databases store them, which saves making UUIDs first."""


class AskedBy(StrEnum):
    """The origin of an occurrence."""

    SCHEDULE = "schedule"
    HAND = "hand"


class WaitsFor(StrEnum):
    """Why a queued execution may not start yet."""

    TIME = "time"
    TURN = "turn"
    TASK = "task"
    LIMIT = "limit"
    STEPS = "steps"
    RESUME = "resume"


class SkipReason(StrEnum):
    """Why due times were not run."""

    OVERLAP = "overlap"
    MISSED = "missed"
    PAUSED = "paused"
    WINDOW = "window"
    BUDGET = "budget"
    FAILED = "failed"


class Status(StrEnum):
    """The status of a job: derived from its facts and its live rows, never stored."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Ending(StrEnum):
    """The final state of a job."""

    COMPLETED = "completed"
    FAILED = "failed"


@hot_dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a job: an edit replaces it and raises its version."""

    task: str
    schedule: Schedule
    args: Json = "{}"
    policies: Policies = Policies()
    app: str = ""
    key: str | None = None
    name: str = ""
    description: str = ""
    queue: str = "default"
    priority: int = 5
    tags: tuple[str, ...] = ()
    metadata: Json = "{}"
    owner: str = ""
    declared: str | None = None  # the hash of the declaration that was applied last


@dataclass(slots=True)
class Facts:
    """The state of a job. A rule changes only its Draft's copy."""

    created_at: datetime
    updated_at: datetime
    anchor: datetime
    version: int = 1
    next_due_at: datetime | None = None
    computed_at: datetime | None = None  # when next_due_at was computed: a clock set back shows here
    last_due_at: datetime | None = None  # the greatest due time dealt with
    reset_at: datetime | None = None  # the retry budget is used up until then
    last_number: int = 0
    last_execution_number: int = 0
    repeats_done: int = 0
    period_start: datetime | None = None
    period_failures: int = 0
    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0
    lost: int = 0
    skipped: int = 0
    paused_at: datetime | None = None
    cancelled_at: datetime | None = None
    ended_at: datetime | None = None
    ended_as: Ending | None = None  # the schedule is over; `ended_at` follows when nothing is live any more
    deleted_at: datetime | None = None

    @property
    def errors(self) -> int:
        """Failed, timed-out and lost attempts."""
        return self.failed + self.timed_out + self.lost

    @property
    def first_run_waits(self) -> bool:
        """True if the first run of a new job, due at its anchor, waits for a place in its bounded queue."""
        return self.last_due_at is None and self.next_due_at == self.anchor


@hot_dataclass(frozen=True, slots=True)
class Job:
    """A standing order."""

    id: UUID
    definition: Definition
    facts: Facts

    @property
    def policies(self) -> Policies:
        return self.definition.policies

    @property
    def schedule(self) -> Schedule:
        return self.definition.schedule


@hot_dataclass(frozen=True, slots=True)
class Live:
    """An execution that is queued or running."""

    id: UUID
    job_id: UUID
    number: int
    attempt: int
    execution_number: int
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    queued_at: datetime
    queue: str
    priority: int
    task: str
    step: str = ""
    slot: int | None = RUN_SLOT
    waits_for: WaitsFor | None = None
    fence: int = 0
    worker_id: UUID | None = None
    started_at: datetime | None = None
    version: int | None = None  # of the job, as it was at the claim
    args: Json | None = None  # only where they differ from the job's
    failures: int = 0
    losses: int = 0
    releases: int = 0
    checkpoint: Json | None = None
    progress: Json | None = None
    cancel_asked_at: datetime | None = None
    cancel_by: str = ""
    limit_key: str | None = None  # rows with the same key share a limit (core/limits.py)

    @property
    def running(self) -> bool:
        """True if a worker holds it, or if it waits for its steps."""
        return self.worker_id is not None or self.waits_for is WaitsFor.STEPS


@hot_dataclass(frozen=True, slots=True)
class Execution:
    """An attempt that has ended. Written once, never changed."""

    id: UUID
    job_id: UUID
    number: int
    step: str
    attempt: int
    execution_number: int
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime
    outcome: OutcomeKind
    task: str
    queue: str
    worker_id: UUID | None
    fence: int
    version: int | None
    args: Json | None
    result: Json | None
    error_kind: str | None
    error: str | None
    traceback: str | None
    failures: int
    losses: int
    releases: int
    checkpoint: Json | None
    by: str
    account: Json | None = None  # its cost, and how it stopped (core/account.py)


SHARED_COLUMNS: Final = tuple(field.name for field in fields(Live) if field.name in Execution.__dataclass_fields__)
_copied = eval(  # a constructor written out costs a third of a loop over the columns
    f"lambda live, **end: Execution({', '.join(f'{name}=live.{name}' for name in SHARED_COLUMNS)}, **end)",
    {"Execution": Execution},
)


def ended_from(
    live: Live,
    *,
    finished_at: datetime,
    outcome: OutcomeKind,
    error: Error | None,
    result: Json | None,
    by: str,
) -> Execution:
    """Make the record of a live row that has ended: columns of the same name are copied."""
    kind, message, traceback = (None, None, None) if error is None else (error.kind, error.message, error.traceback)
    ended: Execution = _copied(
        live, finished_at=finished_at, outcome=outcome, result=result, error_kind=kind, error=message,
        traceback=traceback, by=by,
    )  # fmt: skip
    return ended


@dataclass(frozen=True, slots=True)
class Skip:
    """A range of due times that were not run, with the reason."""

    id: UUID
    job_id: UUID
    reason: SkipReason
    first_due_at: datetime
    last_due_at: datetime
    count: int
    recorded_at: datetime
    in_the_way: UUID | None = None
    follows: datetime | None = None  # the due time dealt with before it: a skip that ends there is extended


@dataclass(frozen=True, slots=True)
class Event:
    """A fact that no other row records, and the caller who caused it."""

    id: UUID
    at: datetime
    kind: str
    job_id: UUID | None = None
    execution_id: UUID | None = None
    worker_id: UUID | None = None
    by: str = ""
    data: Json = "{}"


@hot_dataclass(frozen=True, slots=True)
class Change:
    """The decision of a rule about one job; saved whole, or not at all."""

    job: Job
    add: tuple[Live, ...] = ()
    alter: tuple[Live, ...] = ()
    drop: tuple[UUID, ...] = ()
    ended: tuple[Execution, ...] = ()
    skips: tuple[Skip, ...] = ()
    events: tuple[Event, ...] = ()
    rewritten: tuple[Skip, ...] = ()  # skips that a wrong clock had made too long; a count of 0 removes one

    def retry_of(self, ended: Execution) -> Live | None:
        """Return the attempt that follows an execution in this change."""
        occurrence = ended.number, ended.step
        return next((live for live in self.add if (live.number, live.step) == occurrence), None)


@hot_dataclass(frozen=True, slots=True)
class Claimed:
    """An execution that a worker has just taken, with the definition it runs by."""

    live: Live
    definition: Definition

    @property
    def args(self) -> Json:
        return self.definition.args if self.live.args is None else self.live.args


@hot_dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of a claimed execution, on its way to the store."""

    live: Live
    outcome: Outcome
    at: datetime
    definition: Definition | None = None  # the definition of the run, where it is at hand
    account: Json | None = None


@dataclass(frozen=True, slots=True)
class DeclinedJob:
    """A declared job that was deleted; `declared` is the fingerprint of its declaration."""

    app: str
    key: str
    declared: str
    at: datetime
    by: str


# -- Ids: made and read several times for each execution, so without the checks of `UUID(…)` (0.4 instead of 1.4 µs)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
VERSION_7: Final = 7 << 76
MILLISECOND_BITS: Final = 80  # below the milliseconds since the epoch
VARIANT: Final = 0b10 << 62
FIRST_ID: Final = UUID(int=0)  # before all ids

UNKNOWN: Final = SafeUUID.unknown  # a lookup in an Enum costs a call

_new: Final = object.__new__
_set_int: Final[Any] = UUID.__dict__["int"].__set__
_set_safety: Final[Any] = UUID.__dict__["is_safe"].__set__


def uuid_of(number: int) -> UUID:
    """Make a UUID from a number that is known to be valid."""
    made = _new(UUID)
    _set_int(made, number)
    _set_safety(made, UNKNOWN)
    return made


def head_of(now: datetime) -> int:
    """Return the part of an id that comes from its instant; the rest is random."""
    milliseconds, rest = divmod((max(now, EPOCH) - EPOCH) // MICROSECOND, 1000)
    return milliseconds << MILLISECOND_BITS | VERSION_7 | rest * 4096 // 1000 << 64 | VARIANT


def first_of(at: datetime) -> UUID:
    """Return the least id of an instant: no id below it was made then or later."""
    return uuid_of(head_of(at))
