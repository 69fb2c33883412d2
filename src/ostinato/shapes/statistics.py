"""Figures, going out: exactly the names of seed 003, and more beside them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel

from ostinato.core.model import Status
from ostinato.service.metrics import Figures, Metrics
from ostinato.service.views import JobStats
from ostinato.shapes.executions import milliseconds

Percentiles = dict[str, int | None]
Amount = TypeVar("Amount")


class JobStatsAnswer(BaseModel):
    """A job in figures."""

    total_executions: int
    successful_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped: int
    average_duration_ms: int | None
    duration_ms: Percentiles
    lateness_ms: Percentiles
    cpu_time_ms: Percentiles
    memory_peak_mb: dict[str, float]
    last_execution_at: datetime | None
    next_scheduled_at: datetime | None
    success_rate: float | None

    @classmethod
    def of(cls, stats: JobStats) -> "JobStatsAnswer":
        return cls(
            total_executions=stats.total_executions, successful_runs=stats.successful_runs,
            failed_runs=stats.failed_runs, cancelled_runs=stats.cancelled_runs, skipped=stats.skipped,
            average_duration_ms=milliseconds(stats.average_duration), duration_ms=_percentiles(stats.percentiles),
            lateness_ms=_percentiles(stats.lateness), cpu_time_ms=_named(stats.cpu_ms),
            memory_peak_mb=_named(stats.memory_mb), last_execution_at=stats.last_execution_at,
            next_scheduled_at=stats.next_scheduled_at, success_rate=stats.success_rate,
        )  # fmt: skip


class FiguresAnswer(BaseModel):
    """Runs in figures: counts of all time, durations and lateness of the newest runs."""

    total: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    average_duration_ms: int | None
    duration_ms: Percentiles
    lateness_ms: Percentiles
    cpu_time_ms: Percentiles
    memory_peak_mb: dict[str, float]
    success_rate: float | None

    @classmethod
    def of(cls, figures: Figures) -> "FiguresAnswer":
        return cls(
            total=figures.total, completed=figures.completed, failed=figures.failed, cancelled=figures.cancelled,
            skipped=figures.skipped, average_duration_ms=milliseconds(figures.average_duration),
            duration_ms=_percentiles(figures.durations), lateness_ms=_percentiles(figures.lateness),
            cpu_time_ms=_named(figures.cpu_ms), memory_peak_mb=_named(figures.memory_mb),
            success_rate=figures.success_rate,
        )  # fmt: skip


class MetricsAnswer(BaseModel):
    """Everything in figures."""

    jobs: dict[Status, int]
    executions: FiguresAnswer
    tasks: dict[str, FiguresAnswer]
    last_check_at: datetime | None
    last_metrics_update: datetime
    stale_locks_cleared: int

    @classmethod
    def of(cls, metrics: Metrics) -> "MetricsAnswer":
        return cls(
            jobs=dict(metrics.jobs), executions=FiguresAnswer.of(metrics.executions),
            tasks={task: FiguresAnswer.of(figures) for task, figures in metrics.tasks.items()},
            last_check_at=metrics.last_check_at, last_metrics_update=metrics.last_metrics_update,
            stale_locks_cleared=metrics.stale_locks_cleared,
        )  # fmt: skip


def _percentiles(found: Mapping[int, timedelta]) -> Percentiles:
    return {f"p{percent}": milliseconds(value) for percent, value in found.items()}


def _named(found: Mapping[int, Amount]) -> dict[str, Amount]:
    return {f"p{percent}": value for percent, value in found.items()}
