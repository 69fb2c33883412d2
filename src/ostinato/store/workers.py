"""Workers and their leases: who is alive, and what becomes of the work of those who are not."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core.errors import NotFound
from ostinato.core.model import Change, Event, Finished, Live, Luck
from ostinato.core.outcome import Interrupted, Lost
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.dialect import from_micros, to_uuid
from ostinato.store.queue import Queue
from ostinato.store.rows import QueueRow, WorkerRow

REMEMBERED = timedelta(days=30)  # a task that a worker of this long ago knew is not unknown
STILL_UNDER_WAY = timedelta(minutes=10)  # no claim takes longer than this to appear under a closed worker


@dataclass(frozen=True, slots=True)
class NewWorker:
    """Who comes to work."""

    id: UUID
    app: str
    host: str
    pid: int
    version: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    concurrency: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a worker learns when it renews: None instead means that its row is closed."""

    drain: bool


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A lease as a sweeper saw it."""

    worker_id: UUID
    renewed_at: datetime
    lease_until: datetime


class Workers:
    """The table of those who work, and that of the queues they serve."""

    def __init__(self, database: Database, queue: Queue, luck: Luck) -> None:
        self._database = database
        self._queue = queue
        self._luck = luck

    # -- a worker's own life

    def join(self, worker: NewWorker, now: datetime, lease: timedelta) -> None:
        """Come to work. Safe to repeat."""
        with self._database.write() as tx:
            if tx.row("lock_worker", id=worker.id) is not None:
                return
            tx.run(
                "insert_worker", id=worker.id, app=worker.app, host=worker.host, pid=worker.pid,
                version=worker.version, tasks=json.dumps(sorted(worker.tasks)),
                queues=json.dumps(sorted(worker.queues)), concurrency=worker.concurrency, now=now,
                lease_until=now + lease,
            )  # fmt: skip
            self._tell(tx, now, "worker.started", worker.id, host=worker.host, pid=worker.pid)

    def renew(self, worker_id: UUID, now: datetime, lease: timedelta, running: int) -> Renewal | None:
        """Keep the lease; None when the row is closed."""
        with self._database.write() as tx:
            row = tx.row("renew", id=worker_id, now=now, lease_until=now + lease, running=running)
        return None if row is None else Renewal(drain=row[0] is not None)

    def leave(self, worker_id: UUID, now: datetime) -> list[Change]:
        """Stop working: what still runs under this worker is handed back."""
        with self._database.write() as tx:
            changes = self._settle_held(tx, [worker_id], Interrupted(), now)
            if tx.run("close_worker", id=worker_id, now=now, closed_as="stopped"):
                self._tell(tx, now, "worker.stopped", worker_id)
        return changes

    def hand_back_unknown(self, worker_id: UUID, known: Collection[UUID], now: datetime) -> list[Change]:
        """After a claim whose answer was lost: release what is held without anybody running it."""
        with self._database.write() as tx:
            return self._settle_held(tx, [worker_id], Interrupted(), now, except_for=known)

    # -- the sweeper's view

    def leases(self) -> list[LeaseSeen]:
        """The leases of all who say to be alive."""
        with self._database.read() as tx:
            found = tx.rows("open_leases")
        return [
            LeaseSeen(to_uuid(i), from_micros(renewed), from_micros(until)) for i, renewed, until in found
        ]

    def close_lost(self, seen: LeaseSeen, now: datetime) -> list[Change]:
        """Close the row of a worker that has gone, and settle as lost all that runs under it, together."""
        with self._database.write() as tx:
            row = tx.row("lock_worker", id=seen.worker_id)
            if row is None or row[3] is not None or from_micros(row[1]) != seen.renewed_at:
                return []
            tx.run("close_worker", id=seen.worker_id, now=now, closed_as="lost")
            self._tell(tx, now, "worker.lost", seen.worker_id, last_seen=str(seen.renewed_at))
            return self._settle_held(tx, [seen.worker_id], Lost(), now)

    def settle_leftovers(self, now: datetime) -> list[Change]:
        """Settle as lost what appeared under a worker after it was closed: a claim that was under way."""
        since = now - STILL_UNDER_WAY
        with self._database.read() as tx:
            closed = [
                to_uuid(i) for (i,) in tx.rows("lately_closed", since=since, since_seen=now - REMEMBERED)
            ]
            if not closed or not tx.rows("held_by", workers=closed):
                return []
        with self._database.write() as tx:
            return self._settle_held(tx, closed, Lost("it was claimed by a worker that had been closed"), now)

    def _settle_held(
        self,
        tx: Tx,
        workers: Sequence[UUID],
        outcome: Lost | Interrupted,
        now: datetime,
        except_for: Collection[UUID] = (),
    ) -> list[Change]:
        held = [to_uuid(row[0]) for row in tx.rows("held_by", workers=list(workers))]
        ids = [live_id for live_id in held if live_id not in except_for]
        if not ids:
            return []
        lives = [rows.LIVE.of(row) for row in tx.rows("live_by_id", ids=ids)]
        changes, _ = self._queue.settle_in(
            tx, [Finished(live, outcome, now) for live in lives if _held(live)]
        )
        return changes

    # -- for people

    def seen(self, now: datetime, since: timedelta = timedelta(days=1), limit: int = 1000) -> list[WorkerRow]:
        """The workers seen lately, the newest first."""
        with self._database.read() as tx:
            return [rows.WORKER.of(row) for row in tx.rows("list_workers", since=now - since, limit=limit)]

    def drain(self, worker_id: UUID, now: datetime, by: str) -> None:
        """Ask a worker to claim no more."""
        with self._database.write() as tx:
            if not tx.run("ask_to_drain", id=worker_id, now=now):
                raise NotFound(f"There is no worker {worker_id} at work.")
            self._tell(tx, now, "worker.drain_asked", worker_id, by=by)

    def known_tasks(self, now: datetime) -> frozenset[str]:
        """Every task that a worker of the last 30 days knew."""
        with self._database.read() as tx:
            lists = [json.loads(tasks) for (tasks,) in tx.rows("known_tasks", since=now - REMEMBERED)]
        return frozenset(name for names in lists for name in names)

    def queues(self) -> list[QueueRow]:
        with self._database.read() as tx:
            return [rows.QUEUE.of(row) for row in tx.rows("list_queues")]

    def pause_queue(self, name: str, now: datetime, by: str) -> None:
        """From this commit on nothing of the queue starts."""
        self._set_pause(name, now, now, by, "queue.paused")

    def resume_queue(self, name: str, now: datetime, by: str) -> None:
        self._set_pause(name, None, now, by, "queue.resumed")

    def bound_queue(self, name: str, max_queued: int | None, now: datetime, by: str) -> None:
        """Let the schedule fire into a queue only while fewer than this may start."""
        with self._database.write() as tx:
            tx.run("add_queues", [(name,)])
            tx.run("set_queue_bound", name=name, max_queued=max_queued)
            self._tell(tx, now, "queue.bounded", None, by=by, queue=name, max_queued=max_queued)
            tx.ring()

    def _set_pause(self, name: str, paused_at: datetime | None, now: datetime, by: str, kind: str) -> None:
        with self._database.write() as tx:
            tx.run("add_queues", [(name,)])
            tx.row("lock_queue", name=name)
            tx.run("set_queue_pause", name=name, paused_at=paused_at, by=by if paused_at else "")
            self._tell(tx, now, kind, None, by=by, queue=name)
            tx.ring()

    def _tell(
        self, tx: Tx, now: datetime, kind: str, worker_id: UUID | None, by: str = "", **data: object
    ) -> None:
        event = Event(self._luck.id(now), now, kind, worker_id=worker_id, by=by, data=json.dumps(data))
        tx.run("insert_events", [rows.EVENT.row(event)])


def _held(live: Live) -> bool:
    return live.worker_id is not None
