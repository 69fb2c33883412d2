"""Figures about runs, from counters and from the newest few rows: history is never scanned."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from ostinato.core.account import Account
from ostinato.core.failing import Ended, Failing
from ostinato.core.model import first_of
from ostinato.core.outcome import FAILURES, OutcomeKind
from ostinato.core.read_models import TaskCounters
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_uuid

# -- Cached answers of slow queries.
#
# Counters of ten thousand jobs are added up in milliseconds, those of a million finished run-once jobs in a second or
# more. A dashboard on such a database asks every few seconds. So an answer is cached for ten times as long as it took,
# and watching costs at most a tenth of one connection. Answers about fewer jobs are always new.

T = TypeVar("T")

MANY: Final = 20_000  # jobs
CACHED_TIMES_AS_LONG: Final = 10


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    until: float


class AnswerCache:
    """The cached answers of one process."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answers: dict[Hashable, _Answer] = {}

    def holds(self, question: Hashable) -> bool:
        """Return True if an answer is cached; it may be old."""
        return question in self._answers

    def get(self, question: Hashable, ask: Callable[[], tuple[T, int]]) -> T:
        """Return the cached answer, or call `ask`, which returns the answer and the number of jobs it read."""
        cached = self._answers.get(question)
        begun = self._monotonic()
        if cached is not None and begun < cached.until:
            return cached.value  # type: ignore[no-any-return]
        value, jobs = ask()
        now = self._monotonic()
        if jobs > MANY:
            self._answers[question] = _Answer(value, now + CACHED_TIMES_AS_LONG * (now - begun))
        return value


# -- Jobs with failures in the last day and their usual results, from the newest failures and the counters.
#
# The cost depends on the failures, not on the runs: without failures, one range of an index is read. Run-once jobs have
# a
# single run each, so they are grouped by task.

MOST_FAILURES: Final = 1_000
MOST_RUNS: Final = 100  # of one job: its last runs
MOST_RUN_ONCE: Final = 2_000
GROUPS: Final = 10  # with the most failures

Counts = Mapping[OutcomeKind, int]


@dataclass(slots=True)
class _Group:
    """The failures of one job, or of the run-once jobs of one task."""

    title: str
    task: str
    total: Ended  # since the job was made
    errors: Counter[str] = field(default_factory=Counter)


def find_failing(tx: Tx, since: datetime, totals: Mapping[str, Counts]) -> list[Failing]:
    """List the groups with the most failures since an instant; `totals` has the counters of each task."""
    found = tx.rows("failures_lately", from_id=first_of(since), most=MOST_FAILURES)
    groups = _groups(found)
    chosen = sorted(groups, key=lambda key: groups[key].errors.total(), reverse=True)[:GROUPS]
    tasks = [key for key in chosen if isinstance(key, str)]
    lately = _runs_of_jobs(tx, [key for key in chosen if isinstance(key, UUID)], since)
    if tasks:
        lately |= _runs_by_task(tx, since)
        for task in tasks:
            groups[task].total = _ended(totals.get(task, {}))
    return [_failing(groups[key], lately.get(key, {})) for key in chosen]


def _groups(found: Sequence[Sequence[Any]]) -> dict[UUID | str, _Group]:
    groups: dict[UUID | str, _Group] = {}
    for job_id, kind, task, name, completed, failed, error in found:
        key, title = (task, f"run-once jobs of the task {task}") if kind == "once" else (to_uuid(job_id), name or task)
        groups.setdefault(key, _Group(title, task, Ended(completed, failed))).errors[error] += 1
    return groups


def _runs_of_jobs(tx: Tx, ids: list[UUID], since: datetime) -> dict[UUID | str, Counter[OutcomeKind]]:
    counted: dict[UUID | str, Counter[OutcomeKind]] = {}
    for job_id, result, count in tx.rows("ends_of_each", ids=ids, since=since, limit=MOST_RUNS) if ids else ():
        counted.setdefault(to_uuid(job_id), Counter())[OutcomeKind(result)] = count
    return counted


def _runs_by_task(tx: Tx, since: datetime) -> dict[UUID | str, Counter[OutcomeKind]]:
    counted: dict[UUID | str, Counter[OutcomeKind]] = {}
    for task, result, count in tx.rows("run_once_lately", from_id=first_of(since), most=MOST_RUN_ONCE):
        counted.setdefault(task, Counter())[OutcomeKind(result)] = count
    return counted


def _failing(group: _Group, runs: Counts) -> Failing:
    lately, total = _ended(runs), group.total
    before = Ended(max(0, total.completed - lately.completed), max(0, total.failed - lately.failed))
    ((error, repeated),) = group.errors.most_common(1)
    return Failing(group.title, group.task, lately, before, error, repeated)


def _ended(counts: Counts) -> Ended:
    return Ended(counts.get(OutcomeKind.COMPLETED, 0), sum(counts.get(each, 0) for each in FAILURES))


# -- Figures about runs, from counters and from the newest few rows: history is never scanned

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
