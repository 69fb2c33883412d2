"""Jobs with failures in the last day and their usual results, from the newest failures and the counters.

The cost depends on the failures, not on the runs: without failures, one range of an index is read. Run-once jobs have a
single run each, so they are grouped by task.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ostinato.core.failing import Ended, Failing
from ostinato.core.ids import first_of
from ostinato.core.outcome import FAILURES, OutcomeKind
from ostinato.store.adapt import to_uuid
from ostinato.store.database import Tx

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
