"""Search for jobs and executions: filters, sorts, pages and totals.

A page starts after the key of the last row of the page before. (Counting rows would repeat or skip some while others
are added.) Totals are exact up to `MOST_COUNTED` jobs. Totals of executions come from the counters of the jobs, which
equal history plus the rows that retention removed (G9), so that no request counts a million rows.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from ostinato.core.model import Execution, Live, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import ENDED, QUEUED, RUNNING, STATES, JobFilter
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.jobs import JobRow, Jobs
from ostinato.store.rows import to_uuid
from ostinato.store.statistics import AnswerCache

MOST_COUNTED: Final = 50_000
FEW: Final = 5_000  # up to this many executions are read and sorted instead of searched among all
NEVER: Final = 2**63 - 1  # sort value of jobs without a next time, the earliest first
TROUBLED: Final = frozenset({"failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class JobKey:
    """The last row of a page of jobs: the values of its sort key."""

    id: UUID
    number: int = 0
    words: str = ""


@dataclass(frozen=True, slots=True)
class ExecutionKey:
    """The last row of a page of executions."""

    id: UUID
    number: int
    attempt: int


@dataclass(frozen=True, slots=True)
class _FoundJobs:
    """A page of jobs; `last`: where the next page starts, None at the end."""

    rows: tuple[JobRow, ...]
    total: int
    last: JobKey | None


@dataclass(frozen=True, slots=True)
class _FoundExecutions:
    """A page of executions; `last`: where the next page starts, None at the end."""

    rows: tuple[Execution | Live, ...]
    total: int
    last: ExecutionKey | None


class Search:
    """Queries about jobs and history."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database, self._jobs, self._cache = database, jobs, AnswerCache()

    # -- jobs

    def jobs(
        self, chosen: JobFilter, sort: str, down: bool, limit: int, offset: int, after: JobKey | None
    ) -> _FoundJobs:
        """Return a page of jobs by one of `SORTS`, ascending or descending, from one snapshot."""
        with self._database.read() as tx:
            keys = self._keys(tx, _parameters(chosen), sort, down, limit + 1, offset, after)
            page, more = keys[:limit], len(keys) > limit
            found = self._jobs.rows_in(tx, [key.id for key in page])
            total = len(page) if _is_all(more, offset, after) else self._count(tx, chosen)
        there = tuple(found[key.id] for key in page if key.id in found)
        return _FoundJobs(there, max(total, offset + len(page)), page[-1] if more else None)

    def _keys(
        self,
        tx: Tx,
        given: dict[str, Any],
        sort: str,
        down: bool,
        limit: int,
        offset: int,
        after: JobKey | None,
    ) -> list[JobKey]:
        last = None if after is None else after.id
        if sort == "created_at":
            name = "newest_jobs" if down else "oldest_jobs"
            found = tx.rows(name, **given, after=last, limit=limit, offset=offset)
            return [JobKey(to_uuid(job_id)) for (job_id,) in found]
        number, words = (after.number, after.words) if after else (0, "")
        never = -1 if down else NEVER
        found = tx.rows(
            "sorted_jobs", **given, sort=sort, down=int(down), never=never, after=last, number=number, words=words,
            limit=limit, offset=offset,
        )  # fmt: skip
        return [JobKey(to_uuid(job_id), number, words) for job_id, number, words in found]

    def _count(self, tx: Tx, chosen: JobFilter) -> int:
        row = tx.row("count_jobs", **_parameters(chosen), most=MOST_COUNTED)
        return 0 if row is None else int(row[0])

    def count_by_status(self, app: str | None = None) -> dict[Status, int]:
        """Count jobs by status."""
        return self._cache.get(("by status", app), lambda: self._counted_by_status(app))

    def _counted_by_status(self, app: str | None) -> tuple[dict[Status, int], int]:
        with self._database.read() as tx:
            found = {Status(status): count for status, count in tx.rows("count_by_status", app=app)}
        return found, sum(found.values())

    # -- executions

    def executions(
        self,
        job_id: UUID | None,
        states: Collection[str],
        task: str | None,
        limit: int,
        offset: int,
        before: ExecutionKey | None,
    ) -> _FoundExecutions:
        """Return executions, the newest first, live and ended together, from one snapshot."""
        wanted = frozenset(states or STATES)
        with self._database.read() as tx:
            total = self._count_executions(tx, job_id, wanted, task)
            if total == 0 and task is None and not (job_id is None and self._cache.holds(("ended", task))):
                return _FoundExecutions((), 0, None)  # no status can match, and a cached count would be wrong
            walk = _walk(job_id, wanted, task, total)
            ids = self._execution_ids(tx, walk, job_id, wanted, task, limit + 1, offset, before)
            page, more = ids[:limit], len(ids) > limit
            found = self._executions(tx, page)
        there = tuple(found[each] for each in page)
        last = ExecutionKey(there[-1].id, there[-1].number, there[-1].attempt) if more else None
        return _FoundExecutions(there, max(total, offset + len(page)), last)

    def _execution_ids(
        self,
        tx: Tx,
        walk: str,
        job_id: UUID | None,
        wanted: frozenset[str],
        task: str | None,
        limit: int,
        offset: int,
        before: ExecutionKey | None,
    ) -> list[UUID]:
        results = _results(wanted)
        given: dict[str, Any] = {
            "task": task, "results": results, "ended": int(bool(results)), "queued": int(QUEUED in wanted),
            "running": int(RUNNING in wanted), "limit": limit, "offset": offset, "reach": limit + offset,
            "job": job_id, "before": None if before is None else before.id,
            "number": None if before is None else before.number,
            "attempt": None if before is None else before.attempt,
        }  # fmt: skip
        asked = self._database.statements[walk].parameters
        return [to_uuid(row[-1]) for row in tx.rows(walk, None, **{name: given[name] for name in asked})]

    def _executions(self, tx: Tx, ids: Sequence[UUID]) -> dict[UUID, Execution | Live]:
        found: list[Execution | Live] = [rows.LIVE.of(row) for row in tx.rows("live_by_id", ids=ids)]
        found += [rows.EXECUTION.of(row) for row in tx.rows("executions_by_id", ids=ids)]
        return {row.id: row for row in found}

    def _count_executions(self, tx: Tx, job_id: UUID | None, wanted: Collection[str], task: str | None) -> int:
        if job_id is None:
            queued, running = tx.rows("count_live", task=task)[0]
            ended = self._cache.get(("ended", task), lambda: _ended_counts(tx, task))
        else:
            queued, running = tx.rows("count_live_of", job=job_id)[0]
            ended = _ended_counts_of(tx, job_id)
        live = int(queued) * (QUEUED in wanted) + int(running) * (RUNNING in wanted)
        return live + sum(ended[result] for result in _results(wanted))


def _walk(job_id: UUID | None, wanted: frozenset[str], task: str | None, total: int) -> str:
    """Return the name of the statement with the shortest way through the tables."""
    if job_id is not None:
        return "search_executions_of"
    if task is not None and total <= FEW:
        return "search_executions_by_task"
    return "search_troubled" if wanted <= TROUBLED else "search_executions"


def _ended_counts(tx: Tx, task: str | None) -> tuple[dict[OutcomeKind, int], int]:
    """Count executions in history by result, and their jobs; of one task or of all."""
    pruned = [json.loads(text) for (text,) in tx.rows("pruned", task=task)]
    *counted, jobs = tx.rows("count_ended", task=task)[0]
    return _less(counted, pruned), jobs


def _ended_counts_of(tx: Tx, job_id: UUID) -> dict[OutcomeKind, int]:
    *counted, pruned = tx.row("count_ended_of", job=job_id) or (0, 0, 0, 0, 0, "{}")
    return _less(counted, [json.loads(pruned)])


def _less(counted: Sequence[int], pruned: Sequence[Mapping[str, int]]) -> dict[OutcomeKind, int]:
    return {
        result: count - sum(removed.get(result, 0) for removed in pruned)
        for result, count in zip(OutcomeKind, counted, strict=True)
    }


def _results(wanted: Collection[str]) -> list[OutcomeKind]:
    return [result for state in wanted if state in ENDED for result in ENDED[state]]


def _is_all(more: bool, offset: int, after: object | None) -> bool:
    """Return True if this page is the only one, so that its length is the total."""
    return not more and offset == 0 and after is None


def _parameters(chosen: JobFilter) -> dict[str, Any]:
    return {
        "app": chosen.app, "task": chosen.task, "queue": chosen.queue,
        "tag": None if chosen.tag is None else json.dumps(chosen.tag),
        "text": None if chosen.text is None else _lowered(chosen.text),
        "due_after": chosen.due_after, "due_before": chosen.due_before,
        "any_status": int(not chosen.statuses), "statuses": sorted(chosen.statuses),
    }  # fmt: skip


def _lowered(text: str) -> str:
    """Return the text as `lower` does on both databases: only A to Z change."""
    return "".join(character.lower() if character.isascii() else character for character in text)
