"""What has been: executions, skips and events; how long they are kept; and whether everything adds up."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.encoding import policies_of
from ostinato.core.model import Event, Execution, Live, Luck, Result, Skip
from ostinato.core.policy import Policies
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.dialect import from_micros, to_uuid

MOST_KEPT: Final = 10_000  # of one job, however young
BATCH: Final = 500  # rows that one transaction of retention takes away at the most
RESULTS: Final = tuple(Result)


@dataclass(frozen=True, slots=True)
class Keep:
    """How long history is kept where a job does not say."""

    executions: int = 100
    days: int = 30


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of a job's history goes on."""

    number: int
    attempt: int


class History:
    """The table of what has been, and what tells about it."""

    def __init__(self, database: Database, luck: Luck) -> None:
        self._database = database
        self._luck = luck

    # -- looking

    def of_job(self, job_id: UUID, limit: int, before: Position | None = None) -> list[Execution]:
        """The history of a job, the newest occurrence first."""
        number, attempt = (before.number, before.attempt) if before else (None, None)
        with self._database.read() as tx:
            found = tx.rows("executions_of", job=job_id, number=number, attempt=attempt, limit=limit)
        return [rows.EXECUTION.of(row) for row in found]

    def page(self, limit: int, before: UUID | None = None) -> list[Execution]:
        """All history, the newest first."""
        with self._database.read() as tx:
            return [rows.EXECUTION.of(row) for row in tx.rows("list_executions", before=before, limit=limit)]

    def live(self, limit: int, before: UUID | None = None, job_id: UUID | None = None) -> list[Live]:
        """What is queued or running, the newest first."""
        with self._database.read() as tx:
            return [rows.LIVE.of(row) for row in tx.rows("list_live", job=job_id, before=before, limit=limit)]

    def find(self, execution_id: UUID) -> Execution | Live | None:
        """An execution by its id, wherever it stands."""
        with self._database.read() as tx:
            live = tx.row("live_by_id", ids=[execution_id])
            if live is not None:
                return rows.LIVE.of(live)
            ended = tx.row("executions_by_id", ids=[execution_id])
        return None if ended is None else rows.EXECUTION.of(ended)

    def last_of(self, job_id: UUID) -> Execution | None:
        """The newest execution of a job."""
        with self._database.read() as tx:
            row = tx.row("last_executions", ids=[job_id])
        return None if row is None else rows.EXECUTION.of(row)

    def skips(self, job_id: UUID, limit: int, before: datetime | None = None) -> list[Skip]:
        with self._database.read() as tx:
            return [
                rows.SKIP.of(row) for row in tx.rows("list_skips", job=job_id, before=before, limit=limit)
            ]

    def events(self, limit: int, job_id: UUID | None = None, before: UUID | None = None) -> list[Event]:
        with self._database.read() as tx:
            return [
                rows.EVENT.of(row) for row in tx.rows("list_events", job=job_id, before=before, limit=limit)
            ]

    def durations(self, job_id: UUID, limit: int = 1000) -> list[timedelta]:
        """How long the newest completed runs took."""
        with self._database.read() as tx:
            return [timedelta(microseconds=us) for (us,) in tx.rows("durations_of", job=job_id, limit=limit)]

    def tell(self, events: Sequence[Event]) -> None:
        """Keep events that no other change carries."""
        with self._database.write() as tx:
            tx.run("insert_events", [rows.EVENT.row(event) for event in events])

    # -- keeping

    def prune(self, after: UUID, now: datetime, keep: Keep, jobs: int = 200) -> UUID | None:
        """Look at the next jobs after an id and take away what they need not keep; where to go on, None at the end."""
        with self._database.read() as tx:
            found = tx.rows("jobs_after", after=after, limit=jobs)
        for job_id, kind, policies, ended_at, cancelled_at, _, pruned in found:
            own = _keep_of(policies_of(policies), keep)
            over = max(ended_at or 0, cancelled_at or 0)
            if kind == "once" and over and from_micros(over) < now - timedelta(days=own.days):
                self._remove_jobs([to_uuid(job_id)])
            else:
                self._prune_job(to_uuid(job_id), json.loads(pruned), now, own)
        return to_uuid(found[-1][0]) if len(found) == jobs else None

    def remove_deleted(self, limit: int = 50) -> int:
        """Take away deleted jobs that nothing runs for any more, with all that belongs to them."""
        with self._database.read() as tx:
            ids = [to_uuid(job_id) for (job_id,) in tx.rows("deleted_jobs", limit=limit)]
        return self._remove_jobs(ids)

    def prune_events(self, now: datetime, keep: Keep, oldest_id: UUID) -> None:
        """Old events and workers; `oldest_id` is the id that an event of the oldest kept instant would have."""
        with self._database.write() as tx:
            tx.run("delete_old_events", before=oldest_id, limit=BATCH)
            tx.run("delete_old_workers", before=now - timedelta(days=max(keep.days, 30)))

    def _prune_job(self, job_id: UUID, pruned: dict[str, int], now: datetime, keep: Keep) -> None:
        oldest = now - timedelta(days=keep.days)
        while True:
            with self._database.write() as tx:
                gone = self._prunable(tx, job_id, oldest, keep)
                for _, result in gone:
                    pruned[result] = pruned.get(result, 0) + 1
                if gone:
                    tx.run("delete_executions", ids=[execution_id for execution_id, _ in gone])
                    tx.run("note_pruned", id=job_id, pruned=json.dumps(pruned))
                tx.run("delete_old_skips", job=job_id, before=oldest)
            if len(gone) < BATCH:
                return

    def _prunable(self, tx: Tx, job_id: UUID, oldest: datetime, keep: Keep) -> list[tuple[UUID, str]]:
        """Beyond the newest few: what is old, or beyond the most that is kept of any job."""
        found = tx.rows("prunable", job=job_id, kept=MOST_KEPT, limit=BATCH)
        if len(found) < BATCH:
            found += [row for row in tx.rows("prunable", job=job_id, kept=keep.executions, limit=MOST_KEPT)
                      if from_micros(row[2]) < oldest]  # fmt: skip
        return list({to_uuid(row[0]): row[1] for row in found[:BATCH]}.items())

    def _remove_jobs(self, ids: Sequence[UUID]) -> int:
        if not ids:
            return 0
        while True:
            with self._database.write() as tx:
                some = [to_uuid(row[0]) for row in tx.rows("executions_of_jobs", ids=list(ids), limit=BATCH)]
                if some:
                    tx.run("delete_executions", ids=some)
                    continue
                tx.run("delete_skips_of", ids=list(ids))
                tx.run("delete_events_of", ids=list(ids))
                return tx.run("delete_jobs", ids=list(ids))

    # -- db check

    def problems(self) -> list[str]:
        """What does not add up: orphans, counters that differ from history, an attempt recorded twice."""
        with self._database.read() as tx:
            found = [
                f"A row of {table} belongs to no job: {to_uuid(row_id)}."
                for table, row_id in tx.rows("orphans")
            ]
            found += [
                f"The execution {to_uuid(row[0])} is live and ended at once." for row in tx.rows("twice")
            ]
            for row in tx.rows("miscounted"):
                found += _miscounted(row)
        return found


def _keep_of(policies: Policies, keep: Keep) -> Keep:
    if policies.keep_executions is not None:
        keep = replace(keep, executions=policies.keep_executions)
    if policies.keep_days is not None:
        keep = replace(keep, days=policies.keep_days)
    return keep


def _miscounted(row: Sequence[Any]) -> list[str]:
    job_id, *counted = row
    counters, pruned, history = counted[:5], json.loads(counted[5]), counted[6:]
    return [
        f"Job {to_uuid(job_id)} counts {counter} {result}; history has {there}, and {pruned.get(result, 0)} pruned."
        for result, counter, there in zip(RESULTS, counters, history, strict=True)
        if counter != there + pruned.get(result, 0)
    ]
