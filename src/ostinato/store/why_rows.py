"""Queries of `why`: the rows of one occurrence."""

from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.model import Event, Execution, Skip
from ostinato.core.read_models import WorkerRow
from ostinato.store import rows
from ostinato.store.adapt import from_micros
from ostinato.store.database import Database

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
