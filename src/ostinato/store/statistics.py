"""Figures about runs, from counters and from the newest few rows: history is never scanned."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.account import Account
from ostinato.core.failing import Failing
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import TaskCounters
from ostinato.store.adapt import from_micros
from ostinato.store.cache import AnswerCache
from ostinato.store.database import Database
from ostinato.store.failing import find_failing

NEWEST: Final = 2_000  # the sample of newest runs
NEWEST_OF_A_JOB: Final = 1_000
ZERO: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of one run: its result, duration, delay and cost. After a clock was set back they are at least
    zero."""

    task: str
    outcome: OutcomeKind
    duration: timedelta
    lateness: timedelta
    account: Account


@dataclass(frozen=True, slots=True)
class AtWork:
    """The live workers, their concurrency, and the number of running executions."""

    workers: int
    concurrency: int
    running: int


class Statistics:
    """Queries for figures."""

    def __init__(self, database: Database) -> None:
        self._database, self._kept = database, AnswerCache()

    def counters(self) -> dict[str, TaskCounters]:
        """Return the counters by task."""
        return self._kept.get("counters", self._counted)

    def _counted(self) -> tuple[dict[str, TaskCounters], int]:
        with self._database.read() as tx:
            found = tx.rows("counters_by_task")
        counters = {
            task: TaskCounters(dict(zip(OutcomeKind, ended, strict=True)), skipped)
            for task, *ended, skipped, _ in found
        }
        return counters, sum(row[-1] for row in found)

    def newest_runs(self, job_id: UUID | None = None, limit: int | None = None) -> list[RunFigures]:
        """Return the newest started runs, of one job or of all."""
        with self._database.read() as tx:
            if job_id is None:
                found = tx.rows("newest_runs", limit=limit or NEWEST)
            else:
                found = tx.rows("newest_runs_of", job=job_id, limit=NEWEST_OF_A_JOB)
        return [
            RunFigures(task, OutcomeKind(result), _time(took), _time(late), Account.from_json(account))
            for task, result, took, late, account in found
        ]

    def failing(self, since: datetime, counters: Mapping[str, TaskCounters]) -> list[Failing]:
        """List jobs with failures since an instant, and their usual results; `counters` are by task."""
        with self._database.read() as tx:
            return find_failing(tx, since, {task: each.ended for task, each in counters.items()})

    def last_seen(self) -> datetime | None:
        """Return the last time any worker was seen; None: never."""
        with self._database.read() as tx:
            ((at,),) = tx.rows("last_seen")
        return None if at is None else from_micros(at)

    def at_work(self, now: datetime) -> AtWork:
        with self._database.read() as tx:
            return AtWork(*tx.rows("at_work", now=now)[0])


def _time(micros: int) -> timedelta:
    return max(timedelta(microseconds=micros), ZERO)
