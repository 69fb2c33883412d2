"""History: executions, skips and events; retention; the rows of one occurrence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.encoding import policies_of
from ostinato.core.errors import NOT_READABLE
from ostinato.core.model import Chance, Event, Execution, Live, Skip
from ostinato.core.read_models import LastRun, WorkerRow
from ostinato.store import rows
from ostinato.store.audit import note_events_gone, noted
from ostinato.store.database import Database, Tx
from ostinato.store.locking import ChangeWriters
from ostinato.store.logs import delete_logs_of
from ostinato.store.rows import from_micros, to_uuid

MOST_KEPT: Final = 10_000  # of one job, whatever their age
BATCH: Final = 500  # maximum rows deleted by one transaction of retention
BATCHES: Final = 100  # maximum transactions of one kind per call
END: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Keep:
    """The default retention of a job's history."""

    executions: int = 100
    days: int = 30


KEEP_ALL: Final = Keep(executions=2**62, days=365_000)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a page in a job's history."""

    number: int
    attempt: int


class History:
    """Tables of history: executions, skips and events."""

    def __init__(self, database: Database, chance: Chance, writers: ChangeWriters) -> None:
        self._database = database
        self._chance = chance
        self._writers = writers
        self._removals = [name for path in database.features.removals for name in database.load(path)]

    # -- queries

    def of_job(self, job_id: UUID, limit: int, before: Position | None = None) -> list[Execution]:
        """Return the history of a job, the newest occurrence first."""
        number, attempt = (before.number, before.attempt) if before else (None, None)
        with self._database.read() as tx:
            found = tx.rows("executions_of", job=job_id, number=number, attempt=attempt, limit=limit)
        return [rows.EXECUTION.of(row) for row in found]

    def page(self, limit: int, before: UUID | None = None) -> list[Execution]:
        """Return a page of all history, the newest first."""
        with self._database.read() as tx:
            return [rows.EXECUTION.of(row) for row in tx.rows("list_executions", before=before, limit=limit)]

    def live(self, limit: int, before: UUID | None = None, job_id: UUID | None = None) -> list[Live]:
        """List queued and running executions, the newest first."""
        with self._database.read() as tx:
            return [rows.LIVE.of(row) for row in tx.rows("list_live", job=job_id, before=before, limit=limit)]

    def find(self, execution_id: UUID) -> Execution | Live | None:
        """Find an execution by its id, live or ended."""
        with self._database.read() as tx:
            live = tx.row("live_by_id", ids=[execution_id])
            if live is not None:
                return rows.LIVE.of(live)
            ended = tx.row("executions_by_id", ids=[execution_id])
        return None if ended is None else rows.EXECUTION.of(ended)

    def last_of(self, job_id: UUID) -> Execution | None:
        """Return the newest execution of a job."""
        with self._database.read() as tx:
            row = tx.row("last_execution", job=job_id)
        return None if row is None else rows.EXECUTION.of(row)

    def last_runs(self, ids: Sequence[UUID]) -> dict[UUID, LastRun]:
        """Return the newest ended execution of each of these jobs, if there is one."""
        with self._database.read() as tx:
            found = [rows.LAST_RUN.of(row) for row in tx.rows("last_runs", ids=list(ids))]
        return {last.job_id: last for last in found}

    def skips(self, job_id: UUID, limit: int, before: datetime | None = None) -> list[Skip]:
        with self._database.read() as tx:
            return [rows.SKIP.of(row) for row in tx.rows("list_skips", job=job_id, before=before, limit=limit)]

    def events(self, limit: int, job_id: UUID | None = None, before: UUID | None = None) -> list[Event]:
        with self._database.read() as tx:
            return [rows.EVENT.of(row) for row in tx.rows("list_events", job=job_id, before=before, limit=limit)]

    def durations(self, job_id: UUID, limit: int = 1000) -> list[timedelta]:
        """List the durations of the newest completed runs."""
        with self._database.read() as tx:
            return [timedelta(microseconds=us) for (us,) in tx.rows("durations_of", job=job_id, limit=limit)]

    def tell(self, events: Sequence[Event]) -> None:
        """Save events that no change carries."""
        with self._database.write() as tx:
            tx.run("insert_events", [rows.EVENT.row(event) for event in events])
            self._writers.write_events(tx, events)

    # -- retention

    def prune(self, after: UUID, now: datetime, keep: Keep, jobs: int = 200) -> UUID | None:
        """Apply retention to the next jobs after an id; return where to continue, None at the end."""
        with self._database.read() as tx:
            found = [_Looked.at(row, now, keep) for row in tx.rows("jobs_after", after=after, limit=jobs)]
        self.remove(self._expire([job for job in found if job.over], now))
        for job in self._with_many_executions(found):
            self._prune_executions(job)
        for job in self._with_old_skips(found):
            self._prune_skips(job)
        return found[-1].id if len(found) == jobs else None

    def remove_deleted(self, limit: int = 50) -> int:
        """Remove some deleted jobs without running executions, with all their rows."""
        with self._database.read() as tx:
            ids = [to_uuid(job_id) for (job_id,) in tx.rows("deleted_jobs", limit=limit)]
        return self.remove(ids)

    def prune_events(self, now: datetime, keep: Keep, oldest_id: UUID) -> None:
        """Remove old events and workers; `oldest_id` is the smallest id of an event at the oldest retained instant."""
        for _ in range(BATCHES):
            with self._database.write() as tx:
                deleted = tx.run("delete_old_events", before=oldest_id, limit=BATCH)
                if deleted:
                    note_events_gone(tx, now - timedelta(days=keep.days))
            if deleted < BATCH:
                break
        with self._database.write() as tx:
            tx.run("delete_old_workers", before=now - timedelta(days=max(keep.days, 30)))

    def _expire(self, jobs: Sequence["_Looked"], now: datetime) -> list[UUID]:
        if not jobs:
            return []
        with self._database.write() as tx:
            expired = tx.rows("expire_jobs", [(job.id, job.oldest) for job in jobs], now=now)
        return [to_uuid(job_id) for (job_id,) in expired]

    def _with_many_executions(self, jobs: Sequence["_Looked"]) -> list["_Looked"]:
        return [job for job in jobs if job.executions > job.keep.executions]

    def _with_old_skips(self, jobs: Sequence["_Looked"]) -> list["_Looked"]:
        with self._database.read() as tx:
            found = tx.rows("jobs_with_old_skips", [(job.id, job.oldest) for job in jobs]) if jobs else []
        old = {to_uuid(job_id) for (job_id,) in found}
        return [job for job in jobs if job.id in old]

    def _prune_executions(self, job: "_Looked") -> None:
        for _ in range(BATCHES):
            with self._database.read() as tx:
                deleted = self._prunable(tx, job)
            if not deleted:
                return
            with self._database.write() as tx:
                pruned = self._pruned(tx, job.id)
                if pruned is None:
                    return
                delete_logs_of(tx, deleted)
                removed = tx.rows("delete_executions", ids=deleted)
                until = max((from_micros(due) for _, _, _, due in removed), default=job.oldest)
                pruned = noted(pruned, job.looked_at, until, max((number for _, _, number, _ in removed), default=0))
                for result, step, _, _ in removed:
                    pruned[result] = pruned.get(result, 0) + (step == "")
                tx.run("note_pruned", id=job.id, pruned=json.dumps(pruned))

    def _prune_skips(self, job: "_Looked") -> None:
        with self._database.write() as tx:
            before = self._pruned(tx, job.id)
            if before is None:
                return
            pruned = noted(before, job.looked_at, job.oldest)
            deleted = sum(count for (count,) in tx.rows("delete_old_skips", job=job.id, before=job.oldest))
            pruned["skipped"] = pruned.get("skipped", 0) + deleted
            tx.run("note_pruned", id=job.id, pruned=json.dumps(pruned))

    def _pruned(self, tx: Tx, job_id: UUID) -> dict[str, int] | None:
        """Lock the job, which another process may prune too, and read its note; None if the note cannot be read."""
        row = tx.row("lock_pruned", id=job_id)
        try:
            return {} if row is None else dict(json.loads(row[0]))
        except NOT_READABLE:
            return None

    def _prunable(self, tx: Tx, job: "_Looked") -> list[UUID]:
        """Return the executions to delete: beyond the newest few, those that are old or above the maximum of any
        job."""
        for kept, before in ((max(MOST_KEPT, job.keep.executions), END), (job.keep.executions, job.oldest)):
            place = tx.row("nth_newest", job=job.id, kept=kept)
            if place is not None:
                number, attempt = place
                found = tx.rows("prunable", job=job.id, number=number, attempt=attempt, before=before, limit=BATCH)
                if found:
                    return [to_uuid(execution_id) for (execution_id,) in found]
        return []

    def remove(self, ids: Sequence[UUID]) -> int:
        """Remove deleted jobs, of which nothing runs any more, with all their rows."""
        if not ids:
            return 0
        while True:
            with self._database.write() as tx:
                some = [to_uuid(row[0]) for row in tx.rows("executions_of_jobs", ids=list(ids), limit=BATCH)]
                if some:
                    delete_logs_of(tx, some)
                    tx.rows("delete_executions", ids=some)
                    continue
                if sum([tx.run(each, ids=list(ids), limit=BATCH) for each in self._removals]):
                    continue
                tx.run("delete_skips_of", ids=list(ids))
                tx.run("delete_dependencies_of", ids=list(ids))
                tx.run("delete_events_of", ids=list(ids))
                return tx.run("delete_jobs", ids=list(ids))


@dataclass(frozen=True, slots=True)
class _Looked:
    """A job as retention sees it."""

    id: UUID
    keep: Keep
    oldest: datetime  # younger executions are retained
    over: bool  # a run-once job that finished before that
    executions: int  # the maximum number
    looked_at: datetime

    @classmethod
    def at(cls, row: Sequence[Any], now: datetime, keep: Keep) -> "_Looked":
        job_id, kind, policies, ended_at, cancelled_at, executions = row
        own = _keep_of(policies, keep)
        oldest = now - timedelta(days=min(own.days, KEEP_ALL.days))
        finished = max(ended_at or 0, cancelled_at or 0)
        over = kind == "once" and finished > 0 and from_micros(finished) < oldest
        return cls(to_uuid(job_id), own, oldest, over, executions, now)


def _keep_of(text: str, keep: Keep) -> Keep:
    try:
        policies = policies_of(text)
    except NOT_READABLE:
        return KEEP_ALL  # written by hand or by a newer version: leave it to that version
    if policies.keep_executions is not None:
        keep = replace(keep, executions=policies.keep_executions)
    if policies.keep_days is not None:
        keep = replace(keep, days=policies.keep_days)
    return keep


# -- Queries of `why`: the rows of one occurrence

NEAR: Final = 20  # numbers and due times have the same order, but for a few
EVENTS: Final = 50
SEARCHED: Final = 20_000  # events searched for those of one queue
WORKERS: Final = 2_000


class Traces:
    """Queries about the history of a job, each answered by an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def number_at(self, job_id: UUID, until: datetime) -> int | None:
        """Return the number of the newest ended occurrence that was due by an instant."""
        with self._database.read() as tx:
            found = tx.rows("occurrences_until", job=job_id, until=until, limit=NEAR)
        return max(found, key=lambda row: (row[1], row[0]))[0] if found else None

    def attempts(self, job_id: UUID, number: int, step: str = "") -> list[Execution]:
        with self._database.read() as tx:
            return [rows.EXECUTION.of(row) for row in tx.rows("attempts_at", job=job_id, number=number, step=step)]

    def run_before(self, job_id: UUID, number: int, since: datetime, until: datetime) -> Execution | None:
        """Return an earlier run of the job that began by `until` and was still going after `since`."""
        with self._database.read() as tx:
            row = tx.row("ended_between", job=job_id, number=number, since=since, until=until)
            found = None if row is None else tx.row("executions_by_id", ids=[row[0]])
        return None if found is None else rows.EXECUTION.of(found)

    def skip_at(self, job_id: UUID, until: datetime) -> Skip | None:
        with self._database.read() as tx:
            row = tx.row("skip_until", job=job_id, until=until)
        return None if row is None else rows.SKIP.of(row)

    def steering(self, job_id: UUID, until: datetime) -> list[Event]:
        """List pauses, resumes and the cancellation of a job, the newest first."""
        with self._database.read() as tx:
            found = tx.rows("events_until", job=job_id, until=until, limit=EVENTS)
        return [rows.EVENT.of(row) for row in found]

    def queue_events(self, before: UUID) -> list[Event]:
        """List pauses and resumes of queues before an event's id, the newest first."""
        with self._database.read() as tx:
            found = tx.rows("queue_events_until", before=before, limit=SEARCHED)
        return [rows.EVENT.of(row) for row in found]

    def full_queue(self, name: str) -> int | None:
        """Return the bound of a queue if it is full now."""
        with self._database.read() as tx:
            found = tx.rows("bounded_queues")
        return next((most for queue, most, there in found if queue == name and there >= most), None)

    def paused_queues(self) -> dict[str, tuple[datetime, str]]:
        """Return the paused queues by name: since when, and by whom."""
        with self._database.read() as tx:
            return {name: (from_micros(at), by) for name, at, by in tx.rows("paused_queues")}

    def workers(self, since: datetime) -> list[WorkerRow]:
        """List workers seen since an instant, and the last one before it."""
        with self._database.read() as tx:
            found = tx.rows("worker_before", since=since) + tx.rows("workers_since", since=since, limit=WORKERS)
        return [rows.WORKER.of(row) for row in found]
