"""Answers of the service."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.account import Account, Stop, stop_of, stop_of_job
from ostinato.core.model import Change, Definition, Execution, Facts, Job, Live, Status
from ostinato.core.payload import decode
from ostinato.core.schedule import describe
from ostinato.core.trace import shown
from ostinato.store.jobs import JobRow

Ref = UUID | str  # a job: its id, or its key


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, what it is doing, and when it does something next."""

    job: Job
    lives: tuple[Live, ...]
    status: Status
    next_run_at: datetime | None
    reason: str | None = None  # why it is pending or queued, where that was asked for

    @classmethod
    def of(cls, row: JobRow) -> "JobView":
        return cls(
            row.job,
            row.lives,
            lifecycle.status(row.job, row.lives),
            lifecycle.next_run_at(row.job, row.lives),
        )

    @classmethod
    def after(cls, change: Change, before: Iterable[Live]) -> "JobView":
        """A job as a change leaves it; `before` are the live rows that it found."""
        lives = {live.id: live for live in (*before, *change.alter, *change.add)}
        for gone in change.drop:
            lives.pop(gone, None)
        return cls.of(JobRow(change.job, tuple(lives.values())))

    @property
    def id(self) -> UUID:
        return self.job.id

    @property
    def key(self) -> str | None:
        return self.job.definition.key

    @property
    def task(self) -> str:
        return self.job.definition.task

    @property
    def definition(self) -> Definition:
        return self.job.definition

    @property
    def metadata(self) -> dict[str, Any]:
        """Return what the user keeps with the job."""
        return shown(self.job.definition.metadata)

    @property
    def facts(self) -> Facts:
        return self.job.facts

    @property
    def when(self) -> str:
        """Describe the schedule in plain English."""
        definition = self.job.definition
        anchor = None if definition.policies.fixed_delay else self.job.facts.anchor
        return describe(definition.schedule, anchor)

    @property
    def waiting(self) -> Live | None:
        """Return the run that waits to start, if there is one."""
        queued = [live for live in self.lives if not live.running]
        return min(queued, key=lambda live: live.run_at, default=None)

    @property
    def stop(self) -> Stop | None:
        """Tell how strongly its runs were asked to stop, if they were and still run."""
        return stop_of_job(self.lives)

    @property
    def args(self) -> dict[str, Any]:
        return decode(self.job.definition.args)  # type: ignore[no-any-return]


# The columns of both tables; one that a row does not have (of what a queued one has yet to find out) is None.
COLUMNS: Final = frozenset(Execution.__dataclass_fields__) | frozenset(Live.__dataclass_fields__)

FIGURES: Final = {  # of its account, by the names that people see
    "items_crawled": "items_crawled", "items_indexed": "items_indexed", "cpu_time_ms": "cpu_ms",
    "memory_peak_mb": "memory_mb", "stopped": "stopped", "exit_code": "exit_code", "traceparent": "traceparent",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """One attempt, queued, running or ended: its row, by the names of its columns, and what is derived from it."""

    row: Execution | Live
    reason: str | None = None  # why it is queued
    metadata: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, row: Execution | Live) -> "ExecutionView":
        return cls(row)

    def __getattr__(self, name: str) -> Any:
        if name in FIGURES:
            return getattr(self.account, FIGURES[name])
        if name not in COLUMNS:
            raise AttributeError(f"An execution has no {name}.")
        return getattr(self.row, name, None)

    @property
    def status(self) -> str:
        """Tell whether it is queued, running, completed, failed or cancelled."""
        if isinstance(self.row, Live):
            return "running" if self.row.running else "queued"
        return "failed" if self.row.outcome.is_failure else self.row.outcome.value

    @property
    def outcome(self) -> str | None:
        """Tell how it ended: completed, failed, timed_out, cancelled or lost; None while it is live."""
        return None if isinstance(self.row, Live) else self.row.outcome.value

    @property
    def duration(self) -> timedelta | None:
        if isinstance(self.row, Live) or self.row.started_at is None:
            return None
        return self.row.finished_at - self.row.started_at

    @property
    def result(self) -> Any:
        """Return the result of the task."""
        found = getattr(self.row, "result", None)
        return None if found is None else decode(found, "result")

    @property
    def progress(self) -> Any:
        """Return what a running task has reported last."""
        found = getattr(self.row, "progress", None)
        return None if found is None else decode(found, "progress")

    @property
    def key(self) -> str:
        """Return the key of this attempt, `ctx.execution_key`."""
        step = f"-{self.row.step}" if self.row.step else ""
        return f"sched-{self.row.job_id}-n{self.row.number}{step}-rc{self.row.attempt}"

    @property
    def account(self) -> Account:
        """Return the cost and counters of the run; of one in progress, its counters so far."""
        if isinstance(self.row, Execution):
            return Account.from_json(self.row.account)
        progress = self.progress if isinstance(self.progress, dict) else {}
        counters = progress.get("counters")
        return Account(
            items_crawled=progress.get("items_crawled"), items_indexed=progress.get("items_indexed"),
            counters=None if counters is None else tuple(counters.items()),
        )  # fmt: skip

    @property
    def counters(self) -> Mapping[str, float] | None:
        counters = self.account.counters
        return None if counters is None else dict(counters)

    @property
    def stop(self) -> Stop | None:
        """Tell how strong its stop was, and whether it is known to be dead; None if it was not stopped."""
        asked, started = self.cancel_asked_at is not None, self.started_at is not None
        return stop_of(self.outcome, self.stopped, asked=asked, started=started)


@dataclass(frozen=True, slots=True)
class JobStats:
    """A job in figures. An attempt that was cancelled is neither a success nor a failure.

    Durations (of completed runs), lateness and costs are those of its newest 1,000 runs.
    """

    total_executions: int
    successful_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped: int
    average_duration: timedelta | None
    percentiles: Mapping[int, timedelta]  # of the duration
    lateness: Mapping[int, timedelta]  # percentiles too, and the next two
    cpu_ms: Mapping[int, int]
    memory_mb: Mapping[int, float]
    last_execution_at: datetime | None
    next_scheduled_at: datetime | None
    success_rate: float | None
