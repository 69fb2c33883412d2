"""A run without a timeout that takes far longer than usual is reported, once: nobody else would notice it."""

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
LEAST: Final = timedelta(seconds=10)  # what is shorter than this is nobody's trouble
ENOUGH: Final = 3  # completed runs that make a habit
LOOKED_AT: Final = 20


@dataclass(frozen=True, slots=True)
class RunUnderWay:
    """A run under way, and for how long."""

    live: Live
    ran: timedelta


def long_runs(began: Iterable[tuple[Claimed, float]], now: float) -> list[RunUnderWay]:
    """Select the runs that may have taken too long; each comes with the second at which it began."""
    return [
        RunUnderWay(claimed.live, ran)
        for claimed, at in began
        if (ran := timedelta(seconds=now - at)) >= LEAST
        and claimed.definition.policies.timeout is None
        and not claimed.live.step  # what is usual is known of whole runs
    ]


def limit(durations: Sequence[timedelta]) -> timedelta | None:
    """Return the duration above which a run is reported; None without enough history."""
    if len(durations) < ENOUGH:
        return None
    return max(FACTOR * sorted(durations)[len(durations) // 2], LEAST)


class Overlong:
    """Knows what is usual for the runs of one worker, and whom it has told."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry) -> None:
        self._store, self._clock, self._chance, self._telemetry = store, clock, chance, telemetry
        self._limits: dict[UUID, timedelta | None] = {}
        self._told: set[UUID] = set()

    def look(self, runs: Collection[RunUnderWay]) -> None:
        """Report those that have gone beyond their limit."""
        under_way = {run.live.id for run in runs}
        self._limits = {run_id: most for run_id, most in self._limits.items() if run_id in under_way}
        self._told &= under_way
        for run in runs:
            most = self._limit_of(run)
            if most is not None and run.ran > most and run.live.id not in self._told:
                self._tell(run, most / FACTOR)

    def _limit_of(self, run: RunUnderWay) -> timedelta | None:
        if run.live.id not in self._limits:
            self._limits[run.live.id] = limit(self._store.history.durations(run.live.job_id, LOOKED_AT))
        return self._limits[run.live.id]

    def _tell(self, run: RunUnderWay, usual: timedelta) -> None:
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
        self._told.add(live.id)  # only now: while the store is away it is still to be told
        self._telemetry.overlong(live, run.ran, usual)
