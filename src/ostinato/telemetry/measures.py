"""Measurements: histograms of durations, and totals that never fall.

Only a process with `/metrics` (`ostinato serve`) measures; elsewhere a run only checks for None.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Final, Generic, NamedTuple, TypeVar

# In seconds.
DURATIONS: Final = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14400.0,
)
LATENESS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
STORE: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
MOST_TASKS: Final = 500  # with own histograms; the others share one
OTHERS: Final = "(others)"

K = TypeVar("K", bound=Hashable)
Run = tuple[str, datetime | None, datetime, datetime]  # task, started, earliest start, ended


class Histogram:
    """A histogram: counts of values up to each bound. Not thread-safe."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Return pairs of a bound and the count of values up to it; the last bound is infinity."""
        found, total = [], 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found


class Snapshot(NamedTuple):
    """A copy of a histogram's values."""

    buckets: Sequence[tuple[float, int]]
    sum: float

    @classmethod
    def of(cls, histogram: Histogram) -> "Snapshot":
        return cls(histogram.cumulative(), histogram.sum)


class StoreTimes:
    """Durations of calls to the store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._histogram = Histogram(STORE)

    def add(self, seconds: float) -> None:
        with self._lock:
            self._histogram.add(seconds)

    def snapshot(self) -> Snapshot:
        with self._lock:
            return Snapshot.of(self._histogram)


class RunTimes:
    """Durations and lateness of runs, by task."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_task: dict[str, tuple[Histogram, Histogram]] = {}

    def add(self, runs: Iterable[Run]) -> None:
        """Add ended runs that had started. After a clock was set back, negative values count as 0."""
        with self._lock:
            for task, started, earliest, ended in runs:
                if started is not None:
                    durations, lateness = self._by_task.get(task) or self._new(task)
                    durations.add(max((ended - started).total_seconds(), 0.0))
                    lateness.add(max((started - earliest).total_seconds(), 0.0))

    def snapshot(self) -> dict[str, tuple[Snapshot, Snapshot]]:
        """Return durations and lateness by task."""
        with self._lock:
            return {task: (Snapshot.of(one), Snapshot.of(two)) for task, (one, two) in self._by_task.items()}

    def _new(self, task: str) -> tuple[Histogram, Histogram]:
        name = task if len(self._by_task) < MOST_TASKS else OTHERS
        return self._by_task.setdefault(name, (Histogram(DURATIONS), Histogram(LATENESS)))


class Totals(Generic[K]):
    """Sums that never fall, of counters that may fall: a removed job removes its counters."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[K, int] = {}
        self._sums: dict[K, int] = {}

    def sample(self, counters: Mapping[K, int]) -> None:
        """Add the increase of each counter since the last sample."""
        with self._lock:
            for key, count in counters.items():
                risen = max(count - self._seen.get(key, 0), 0)
                self._sums[key] = self._sums.get(key, 0) + risen
            self._seen = dict(counters)

    def snapshot(self) -> dict[K, int]:
        with self._lock:
            return dict(self._sums)
