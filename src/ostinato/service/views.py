"""Answers of the front desk."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.account import Account
from ostinato.core.describe import describe
from ostinato.core.model import AskedBy, Change, Definition, Execution, Facts, Job, Live, Result, Status
from ostinato.core.payload import decode
from ostinato.core.stops import Stop, stop_of, stop_of_job
from ostinato.store.jobs import JobRow

STATES = {Result.TIMED_OUT: "failed", Result.LOST: "failed"}


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


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """One attempt, queued, running or ended."""

    id: UUID
    job_id: UUID
    number: int
    attempt: int
    execution_number: int
    task: str
    state: str  # queued, running, completed, failed, cancelled
    outcome: str | None  # completed, failed, timed_out, cancelled, lost
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration: timedelta | None
    worker_id: UUID | None
    version: int | None
    result: Any
    error_kind: str | None
    error: str | None
    traceback: str | None
    waits_for: str | None
    cancel_asked_at: datetime | None
    progress: Any
    key: str
    # What a run tells of itself; None as long as its task tells nothing.
    items_crawled: int | None = None
    items_indexed: int | None = None
    counters: Mapping[str, float] | None = None
    cpu_time_ms: int | None = None
    memory_peak_mb: float | None = None
    stopped: str | None = None  # how, when it was asked to: cooperative, async, terminated, killed
    exit_code: int | None = None
    metadata: Mapping[str, Any] | None = None
    step: str = ""  # the node of a workflow
    reason: str | None = None  # why it is queued

    @property
    def stop(self) -> Stop | None:
        """Tell how strong its stop was, and whether it is known to be dead; None if it was not stopped."""
        asked, started = self.cancel_asked_at is not None, self.started_at is not None
        return stop_of(self.outcome, self.stopped, asked=asked, started=started)

    @classmethod
    def of(cls, row: Execution | Live) -> "ExecutionView":
        return _ended(row) if isinstance(row, Execution) else _live(row)


def _key(row: Execution | Live) -> str:
    step = f"-{row.step}" if row.step else ""
    return f"sched-{row.job_id}-n{row.number}{step}-rc{row.attempt}"


def _ended(row: Execution) -> ExecutionView:
    account = Account.from_json(row.account)
    return ExecutionView(
        id=row.id, job_id=row.job_id, number=row.number, attempt=row.attempt, execution_number=row.execution_number,
        task=row.task, state=STATES.get(row.result, row.result.value), outcome=row.result.value, asked=row.asked,
        due_at=row.due_at, run_at=row.run_at, started_at=row.started_at, finished_at=row.finished_at,
        duration=None if row.started_at is None else row.finished_at - row.started_at, worker_id=row.worker_id,
        version=row.version, result=None if row.value is None else decode(row.value, "result"),
        error_kind=row.error_kind, error=row.error, traceback=row.traceback, waits_for=None, cancel_asked_at=None,
        progress=None, key=_key(row), cpu_time_ms=account.cpu_ms, memory_peak_mb=account.memory_mb,
        stopped=account.stopped, exit_code=account.exit_code, items_crawled=account.items_crawled,
        items_indexed=account.items_indexed, counters=None if account.counters is None else dict(account.counters),
        step=row.step,
    )  # fmt: skip


def _live(row: Live) -> ExecutionView:
    progress = None if row.progress is None else decode(row.progress, "progress")
    told = progress if isinstance(progress, dict) else {}
    return ExecutionView(
        id=row.id, job_id=row.job_id, number=row.number, attempt=row.attempt, execution_number=row.execution_number,
        task=row.task, state="running" if row.running else "queued", outcome=None, asked=row.asked,
        due_at=row.due_at, run_at=row.run_at, started_at=row.started_at, finished_at=None, duration=None,
        worker_id=row.worker_id, version=row.version, result=None, error_kind=None, error=None, traceback=None,
        waits_for=row.waits_for, cancel_asked_at=row.cancel_asked_at,
        progress=progress, key=_key(row), items_crawled=told.get("items_crawled"),
        items_indexed=told.get("items_indexed"), counters=told.get("counters"), step=row.step,
    )  # fmt: skip


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
