"""Counts and times of a process, for `/metrics`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ostinato.core.read_models import TaskCounters
from ostinato.telemetry.measures import RunTimes, Snapshot, StoreTimes, Totals
from ostinato.telemetry.reports import Counts


class EndedTotals(Totals[tuple[str, str]]):
    """Counts of ended executions, by task and result, of all processes."""

    def take_in(self, counters: Mapping[str, TaskCounters]) -> None:
        """Take in the counters of the jobs, by task."""
        ended = ((task, each.ended.items()) for task, each in counters.items())
        self.sample({(task, result): count for task, items in ended for result, count in items})


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Counts and times of a process at one moment."""

    counts: Mapping[tuple[str, str], int]
    run_times: Mapping[str, tuple[Snapshot, Snapshot]]
    store_times: Snapshot

    def to_json(self) -> dict[str, Any]:
        """Write plain values, which another process can read."""
        return {
            "counts": [[*key, count] for key, count in self.counts.items()],
            "run_times": self.run_times,
            "store_times": self.store_times,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "MetricsSnapshot":
        """Read the values of `to_json`."""
        return cls(
            {(kind, which): count for kind, which, count in value["counts"]},
            {task: (Snapshot(*took), Snapshot(*late)) for task, (took, late) in value["run_times"].items()},
            Snapshot(*value["store_times"]),
        )


class MetricsSource(Protocol):
    """Measurements of the process that runs the jobs."""

    @property
    def pid(self) -> int: ...
    @property
    def executions(self) -> EndedTotals: ...
    def measurement(self) -> MetricsSnapshot: ...


class EngineView(Protocol):
    """The engine as the HTTP API sees it."""

    def troubles(self) -> list[str]:
        """List why this process fires or claims no jobs."""

    def measure(self) -> MetricsSource:
        """Return the metrics of the worker process, and start to collect them if needed."""


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """Counts and times of this process."""

    counts: Counts
    run_times: RunTimes
    store_times: StoreTimes
    executions: EndedTotals
    pid: int = field(default_factory=os.getpid)

    def measurement(self) -> MetricsSnapshot:
        """Copy the counts and times as they are now."""
        return MetricsSnapshot(self.counts.snapshot(), self.run_times.snapshot(), self.store_times.snapshot())
