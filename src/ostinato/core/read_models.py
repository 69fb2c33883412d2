"""Values that questions are answered with: the store fills them, the service and its callers read them."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.core.model import Json, Status
from ostinato.core.outcome import FAILURES, OutcomeKind

MOST_ITEMS: Final = 5_000  # of a reading of the feed: events, and executions; the rest comes with the next


@dataclass(frozen=True, slots=True)
class Hour:
    """The executions queued in the hour from `at`, counted by result; None: not counted yet."""

    at: datetime
    ended: Mapping[OutcomeKind, int] | None


@dataclass(frozen=True, slots=True)
class Ran:
    """An execution that has ended, in short form."""

    job_id: UUID
    id: UUID
    number: int
    attempt: int
    outcome: OutcomeKind
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime
    error_kind: str | None

    @property
    def duration(self) -> timedelta | None:
        return None if self.started_at is None else max(self.finished_at - self.started_at, timedelta(0))


class Stream(StrEnum):
    """The streams of log lines."""

    LOG = "log"
    STDOUT = "stdout"
    STDERR = "stderr"


class KeptLine(NamedTuple):
    """A stored log line of an execution."""

    number: int
    at: datetime
    level: int
    stream: Stream
    text: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines of one execution."""

    lines: tuple[KeptLine, ...]
    next: int  # the number to continue after
    cut: int  # bytes that the execution wrote and that were not stored


QUEUED, RUNNING = "queued", "running"


ENDED: Final[Mapping[str, tuple[OutcomeKind, ...]]] = {
    "completed": (OutcomeKind.COMPLETED,),
    "failed": FAILURES,
    "cancelled": (OutcomeKind.CANCELLED,),
}


STATES: Final = (QUEUED, RUNNING, *ENDED)


SORTS: Final = ("created_at", "updated_at", "name", "next_run_at", "priority", "status")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A filter of jobs: all given conditions hold. Due times are next_run_at; `due_before` is exclusive."""

    statuses: frozenset[Status] = frozenset()
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    text: str | None = None  # in the name, task, key or description; capital letters A to Z match small ones
    due_before: datetime | None = None
    due_after: datetime | None = None
    app: str | None = None  # None: of all apps


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as other processes see it."""

    id: UUID
    app: str
    host: str
    pid: int
    version: str
    tasks: str
    queues: str
    concurrency: int
    running: int
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    drain_asked_at: datetime | None
    closed_at: datetime | None
    closed_as: str | None

    @property
    def task_names(self) -> frozenset[str]:
        return frozenset(json.loads(self.tasks))


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue with its waiting and running executions."""

    name: str
    paused_at: datetime | None
    paused_by: str
    max_queued: int | None
    queued: int
    running: int


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest ended execution of a job, in short form."""

    job_id: UUID
    started_at: datetime | None
    finished_at: datetime
    outcome: OutcomeKind
    error: str | None
    failures: int
    account: Json | None


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """A request that may be repeated: its client, its key, and a hash of its content."""

    caller: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The stored answer to a request."""

    status: int
    headers: str
    body: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the feed. Its id is the same in every reading and every process."""

    id: str
    kind: str
    at: datetime
    job_id: UUID | None
    execution_id: UUID | None
    worker_id: UUID | None
    by: str
    data: dict[str, Any]


def is_wanted(kind: str, kinds: Collection[str]) -> bool:
    """Return True if a kind matches: `job.*` matches every kind with that prefix; no kinds match all."""
    return not kinds or any(kind.startswith(k[:-1]) if k.endswith("*") else kind == k for k in kinds)


@dataclass(frozen=True, slots=True)
class TaskCounters:
    """Counters of a task's jobs since their creation."""

    ended: dict[OutcomeKind, int]
    skipped: int


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """The identity of a database; each restore makes a new generation."""

    database_id: str = ""
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.database_id}, generation {self.generation}"
