"""Figures of jobs, of tasks and of the whole system."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from ostinato.core.model import Status
from ostinato.core.outcome import FAILURES, OutcomeKind
from ostinato.core.read_models import QueueRow, TaskCounters
from ostinato.store.statistics import AtWork, RunFigures

Amount = TypeVar("Amount", timedelta, int, float)

PERCENTILES: Final = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Figures:
    """Runs in figures. Counts are of all time; durations, lateness (from a run's earliest start to its start) and
    costs are of the newest runs. The average duration is of completed and failed runs, the percentiles are of
    completed ones. A cancelled run is neither a success nor a failure."""

    total: int
    completed: int
    failed: int  # timed out and lost ones too
    cancelled: int
    skipped: int
    success_rate: float | None
    average_duration: timedelta | None
    durations: Mapping[int, timedelta]  # percentiles: 50, 90, 95, 99; empty when there is none
    lateness: Mapping[int, timedelta]
    cpu_ms: Mapping[int, int]
    memory_mb: Mapping[int, float]

    @classmethod
    def of(cls, counted: Iterable[TaskCounters], runs: Sequence[RunFigures]) -> "Figures":
        ended = dict.fromkeys(OutcomeKind, 0)
        skipped = 0
        for counters in counted:
            skipped += counters.skipped
            for result, count in counters.ended.items():
                ended[result] += count
        failed = sum(ended[result] for result in FAILURES)
        durations = [run.duration for run in runs if run.outcome is OutcomeKind.COMPLETED]
        return cls(
            total=sum(ended.values()),
            completed=ended[OutcomeKind.COMPLETED],
            failed=failed,
            cancelled=ended[OutcomeKind.CANCELLED],
            skipped=skipped,
            success_rate=share(ended[OutcomeKind.COMPLETED], failed),
            average_duration=average([run.duration for run in runs if run.outcome is not OutcomeKind.CANCELLED]),
            durations=percentiles(durations),
            lateness=percentiles([run.lateness for run in runs]),
            cpu_ms=percentiles(run.account.cpu_ms for run in runs if run.account.cpu_ms is not None),
            memory_mb=percentiles(run.account.memory_mb for run in runs if run.account.memory_mb is not None),
        )


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of the whole system."""

    jobs: Mapping[Status, int]
    executions: Figures
    tasks: Mapping[str, Figures]
    # The last time any worker was seen, to about ten seconds.
    last_check_at: datetime | None
    last_metrics_update: datetime
    stale_locks_cleared: int  # executions taken from a dead worker


@dataclass(frozen=True, slots=True)
class Gauges:
    """Figures for a monitor, from the database: every process returns the same."""

    jobs: Mapping[Status, int]
    queues: Sequence[QueueRow]
    at_work: AtWork
    counters: Mapping[str, TaskCounters]  # by task


def metrics(
    jobs: Mapping[Status, int],
    counters: Mapping[str, TaskCounters],
    runs: Sequence[RunFigures],
    last_seen: datetime | None,
    now: datetime,
) -> Metrics:
    """Compute the metrics from the gathered figures."""
    by_task: dict[str, list[RunFigures]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    return Metrics(
        jobs=jobs,
        executions=Figures.of(counters.values(), runs),
        tasks={task: Figures.of([counted], by_task[task]) for task, counted in counters.items()},
        last_check_at=last_seen,
        last_metrics_update=now,
        stale_locks_cleared=sum(counted.ended[OutcomeKind.LOST] for counted in counters.values()),
    )


def percentiles(values: Iterable[Amount]) -> dict[int, Amount]:
    """Return the percentiles of values; without values an empty dict."""
    ordered = sorted(values)
    most = len(ordered) - 1
    return {p: ordered[min(len(ordered) * p // 100, most)] for p in PERCENTILES} if ordered else {}


def average(values: Sequence[timedelta]) -> timedelta | None:
    return sum(values, timedelta(0)) / len(values) if values else None


def share(good: int, bad: int) -> float | None:
    """Return the share of good ones; None without any."""
    return good / (good + bad) if good + bad else None
