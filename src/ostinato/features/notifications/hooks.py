"""Hooks: receivers of notices, and the form of a notice.

Each notice has a topic, and a hook gets one notice of a topic. So two processes, or two checks, may find the same
thing. `text` is a sentence for a person.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from ostinato.core.duration import format_duration
from ostinato.core.model import Definition


class NoticeKind(StrEnum):
    """The kinds of notices."""

    FINISH = "finish"
    FAILURE = "failure"
    RECOVERY = "recovery"
    SKIP = "skip"
    LATE_START = "late_start"
    LONG_RUN = "long_run"
    FAILED_FOR_GOOD = "failed_for_good"


class Measure(StrEnum):
    """The figure that a threshold watches, over a window."""

    SUCCESS_RATE = "success_rate"
    DURATION = "duration"
    LOSSES = "losses"


TEST: Final = "test"
OF_SUCCESSES: Final = frozenset({NoticeKind.FINISH, NoticeKind.RECOVERY, NoticeKind.LATE_START})


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit of a measure over a window; a hook gets at most one notice in each window.

    success_rate: the percentage of a job's executions that succeeded is below the limit. duration: a job's completed
    runs took on average more than `limit` times as long as before the window. losses: at least `limit` executions of
    the hook's jobs were lost.
    """

    measure: Measure
    limit: float
    window: timedelta
    least: int = 1  # with fewer executions a job gives no notice


@dataclass(frozen=True, slots=True)
class Hook:
    """A receiver of notices, and their kinds."""

    id: UUID
    url: str
    kinds: tuple[NoticeKind, ...]
    job_id: UUID | None  # None: of all jobs
    secret: str  # its place (env:SECRET_NAME, file:/run/secrets/NAME); empty: none
    late_after: timedelta
    thresholds: tuple[Threshold, ...]
    description: str
    created_at: datetime
    created_by: str

    def looks_at(self, job_id: UUID) -> bool:
        return self.job_id is None or self.job_id == job_id


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to a hook."""

    kind: str
    topic: str
    at: datetime
    job_id: UUID | None
    text: str
    about: dict[str, Any]

    def body(self, notice_id: UUID, hook_id: UUID) -> dict[str, Any]:
        """Return the JSON body that is sent."""
        head = {"id": notice_id, "hook_id": hook_id, "kind": self.kind, "at": self.at, "text": self.text}
        return {name: plain(value) for name, value in head.items()} | self.about


@dataclass(frozen=True, slots=True)
class Named:
    """A job, as a notice names it."""

    id: UUID
    definition: Definition

    @property
    def title(self) -> str:
        return f"Job {self.definition.name or self.definition.key or self.definition.task}"

    @property
    def shown(self) -> dict[str, Any]:
        named = self.definition
        return {
            "id": str(self.id),
            "key": named.key,
            "name": named.name,
            "task": named.task,
            "queue": named.queue,
        }


def short(span: timedelta) -> str:
    """Write a duration as a person would say it."""
    if span < timedelta(minutes=1):
        return f"{round(span.total_seconds(), 1):g}s"
    return format_duration(timedelta(seconds=round(span.total_seconds())))


def plain(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)
