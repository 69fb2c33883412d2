"""Reports of runs without a timeout that take far longer than usual: one for each run."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.model import Chance, Claimed, Event, Live
from ostinato.core.payload import encode
from ostinato.store.store import Store
from ostinato.telemetry.reports import Telemetry

FACTOR: Final = 10
SHORTEST: Final = timedelta(seconds=10)  # shorter runs are never reported
RUNS_NEEDED: Final = 3  # completed runs needed to know the usual duration
LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class RunUnderWay:
    """A run under way and its duration so far."""

    live: Live
    ran: timedelta


def long_runs(began: Iterable[tuple[Claimed, float]], now: float) -> list[RunUnderWay]:
    """Select the runs that may have taken too long; each comes with its start time in seconds."""
    return [
        RunUnderWay(claimed.live, ran)
        for claimed, at in began
        if (ran := timedelta(seconds=now - at)) >= SHORTEST
        and claimed.definition.policies.timeout is None
        and not claimed.live.step  # usual durations are known for whole runs only
    ]


def limit(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the duration above which a run is reported; None without enough history."""
    if len(durations) < RUNS_NEEDED:
        return None
    return max(FACTOR * sorted(durations)[len(durations) // 2], SHORTEST)


class LongRuns:
    """The usual durations of one worker's runs, and the runs already reported."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry) -> None:
        self._store, self._clock, self._chance, self._telemetry = store, clock, chance, telemetry
        self._limits: dict[UUID, timedelta | None] = {}
        self._reported: set[UUID] = set()

    def look(self, runs: Collection[RunUnderWay]) -> None:
        """Report runs that exceed their limit."""
        under_way = {run.live.id for run in runs}
        self._limits = {run_id: most for run_id, most in self._limits.items() if run_id in under_way}
        self._reported &= under_way
        for run in runs:
            most = self._limit_of(run)
            if most is not None and run.ran > most and run.live.id not in self._reported:
                self._report(run, most / FACTOR)

    def _limit_of(self, run: RunUnderWay) -> timedelta | None:
        if run.live.id not in self._limits:
            self._limits[run.live.id] = limit(self._store.history.durations(run.live.job_id, LOOKED_AT))
        return self._limits[run.live.id]

    def _report(self, run: RunUnderWay, usual: timedelta) -> None:
        now, live = self._clock.now(), run.live
        data = {"number": live.number, "ran": run.ran.total_seconds(), "usual": usual.total_seconds()}
        event = Event(
            self._chance.id(now),
            now,
            "execution.overlong",
            live.job_id,
            live.id,
            live.worker_id,
            data=encode(data),
        )
        self._store.history.tell([event])
        self._reported.add(live.id)  # only now: if the store is unavailable, the report is tried again
        self._telemetry.overlong(live, run.ran, usual)
