"""Shapes of statistics: all names of seed 003, and further ones."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

from ostinato.core.model import Status
from ostinato.service.metrics import Metrics
from ostinato.shapes.answers import Answer, JsonObject, Out
from ostinato.shapes.executions import milliseconds

Percentiles = dict[str, int | None]
Amount = TypeVar("Amount")


def _percentiles(found: Mapping[int, timedelta]) -> Percentiles:
    return {f"p{percent}": milliseconds(value) for percent, value in found.items()}


def _named(found: Mapping[int, Amount]) -> dict[str, Amount]:
    return {f"p{percent}": value for percent, value in found.items()}


class JobStatsAnswer(Answer):
    """Statistics of a job."""

    total_executions: int
    successful_runs: int
    failed_runs: int
    cancelled_runs: int
    skipped: int
    average_duration_ms: Annotated[int | None, Out("average_duration", milliseconds)]
    duration_ms: Annotated[Percentiles, Out("percentiles", _percentiles)]
    lateness_ms: Annotated[Percentiles, Out("lateness", _percentiles)]
    cpu_time_ms: Annotated[Percentiles, Out("cpu_ms", _named)]
    memory_peak_mb: Annotated[dict[str, float], Out("memory_mb", _named)]
    last_execution_at: datetime | None
    next_scheduled_at: datetime | None
    success_rate: float | None


class FiguresAnswer(Answer):
    """Statistics of runs: counts of all time; durations and lateness of the newest runs."""

    total: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    average_duration_ms: Annotated[int | None, Out("average_duration", milliseconds)]
    duration_ms: Annotated[Percentiles, Out("durations", _percentiles)]
    lateness_ms: Annotated[Percentiles, Out("lateness", _percentiles)]
    cpu_time_ms: Annotated[Percentiles, Out("cpu_ms", _named)]
    memory_peak_mb: Annotated[dict[str, float], Out("memory_mb", _named)]
    success_rate: float | None


class MetricsAnswer(JsonObject):
    """Statistics of all jobs, and of each task."""

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
