"""Workers and their leases, and what happens to the executions of dead workers."""

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core.errors import DatabaseReplaced, NotFound, RowRefused
from ostinato.core.model import EPOCH, Chance, Change, Event, FencedId, Finished
from ostinato.core.outcome import Interrupted, Lost
from ostinato.core.read_models import QueueRow, WorkerRow
from ostinato.core.task_schema import TaskSchema
from ostinato.store import rows
from ostinato.store.database import Database, Row, Tx
from ostinato.store.rows import from_micros, to_micros, to_uuid
from ostinato.store.settling import Settling

log = logging.getLogger("ostinato.store")

TASKS_KNOWN_FOR = timedelta(days=30)  # a task known to a worker this long ago is not unknown
LATELY = timedelta(minutes=10)  # for this long each sweep looks for rows left by a closed worker,
LEFT_BEHIND = 500  # and later once per such period: this many rows at once
WENT_BACK = "went_back"  # the note of the last time the database had lost commits


@dataclass(frozen=True, slots=True)
class NewWorker:
    """A worker that registers."""

    id: UUID
    app: str
    host: str
    pid: int
    version: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    concurrency: int
    described: tuple[TaskSchema, ...] = ()  # the user's tasks among `tasks`


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal; None instead means that the worker's row is closed."""

    drain: bool


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A lease as a sweeper read it."""

    worker_id: UUID
    renewed_at: datetime
    lease_until: datetime


class Workers:
    """Table of workers, and of the queues they serve."""

    def __init__(self, database: Database, queue: Settling, chance: Chance) -> None:
        self._database = database
        self._queue = queue
        self._chance = chance
        self._looked_at: datetime | None = None
        self._identity: Row | None = None  # of the database, when it was first seen

    # -- called by a worker

    def join(self, worker: NewWorker, now: datetime, lease: timedelta) -> None:
        """Register a worker. Safe to repeat."""
        with self._database.write() as tx:
            self._require_same(tx.rows("identity")[0])
            if tx.row("lock_worker", id=worker.id) is not None:
                return
            tx.run(
                "insert_worker", id=worker.id, app=worker.app, host=worker.host, pid=worker.pid,
                version=worker.version, tasks=json.dumps(sorted(worker.tasks)),
                queues=json.dumps(sorted(worker.queues)), concurrency=worker.concurrency, now=now,
                lease_until=now + lease,
            )  # fmt: skip
            if worker.described:
                tx.run("describe_tasks", [_described(each) for each in worker.described])
            self._tell(tx, now, "worker.started", worker.id, host=worker.host, pid=worker.pid)

    def renew(
        self, worker_id: UUID, now: datetime, lease: timedelta, running: int, at_least: datetime = EPOCH
    ) -> Renewal | None:
        """Renew the lease; return None if the row is closed. `at_least`: the renewal that the database must have."""
        with self._database.write() as tx:
            row = tx.row("renew", id=worker_id, now=now, lease_until=now + lease, running=running, at_least=at_least)
            if row is None:
                self._not_renewed(tx, worker_id, now, at_least)
                return None
            self._require_same(row[1:])
        return Renewal(drain=row[0] is not None)

    def leave(
        self,
        worker_id: UUID,
        now: datetime,
        begun: Collection[FencedId] = (),
        unsaved: Collection[FencedId] = (),
    ) -> list[Change]:
        """Close the worker's row and end its executions as interrupted: a begun one by its job's policy, one that never
        began (the answer to its claim was lost) by a release.

        If some results cannot be saved, its row stays open: the lease expires, and the sweeper settles them as lost.
        """

        def end(hold: FencedId) -> Interrupted | None:
            return None if hold in unsaved else Interrupted(started=hold in begun)

        if not unsaved:
            return self._close(worker_id, now, "stopped", end, None)
        with self._database.write() as tx:
            tx.row("lock_worker", id=worker_id)
            return list(self._queue.settle_in(tx, self._held(tx, worker_id, now, end)).changes)

    def leave_quietly(self, worker_id: UUID, now: datetime) -> None:
        """Close the row of a worker that served one ended run, without an event."""
        with self._database.write() as tx:
            tx.run("close_worker", id=worker_id, now=now, closed_as="stopped")

    def hand_back_unknown(self, worker_id: UUID, known: Collection[FencedId], now: datetime) -> list[Change]:
        """Release executions under this worker that it does not know: the answer to their claim was lost."""
        with self._database.write() as tx:
            tx.row("lock_worker", id=worker_id)  # that claim may still be under way
            unknown = self._held(tx, worker_id, now, lambda hold: None if hold in known else Interrupted())
        # Not in the same transaction: there, one refused row would stop all others.
        return list(self._queue.settle(unknown).changes) if unknown else []

    def _not_renewed(self, tx: Tx, worker_id: UUID, now: datetime, at_least: datetime) -> None:
        """Find out why a renewal failed; write an event if the database went back."""
        self._require_same(tx.rows("identity")[0])
        row = tx.row("lock_worker", id=worker_id)
        if at_least == EPOCH or (row is not None and row[3] is not None):
            return
        lost = None if row is None else (at_least - from_micros(row[1])).total_seconds()
        self._tell(tx, now, "database.went_back", worker_id, seconds=lost)
        tx.run("remember", key=WENT_BACK, value=str(to_micros(now)))
        log.warning("The database was restored to an earlier state: worker_id=%s seconds=%s", worker_id, lost)

    def _require_same(self, identity: Row) -> None:
        """Raise DatabaseReplaced if this is not the database of the first call."""
        self._identity = self._identity or identity
        if identity != self._identity:
            raise DatabaseReplaced(
                f"{self._database.name} is another database than the one that this process has opened, or was "
                "restored: this process stops and writes nothing more. Check which one is right, then start it again."
            )

    # -- called by a sweeper

    def leases(self) -> list[LeaseSeen]:
        """List the leases of all open workers."""
        with self._database.read() as tx:
            found = tx.rows("open_leases")
        return [LeaseSeen(to_uuid(i), from_micros(renewed), from_micros(until)) for i, renewed, until in found]

    def close_lost(self, seen: LeaseSeen, now: datetime) -> list[Change]:
        """Close the row of a dead worker, and settle its executions as lost, in one transaction."""
        return self._close(seen.worker_id, now, "lost", lambda _: Lost(), seen.renewed_at)

    def settle_leftovers(self, now: datetime) -> list[Change]:
        """Settle as lost the executions that a worker's closing could not settle."""
        with self._database.read() as tx:
            if not self._time_to_look(now) and not tx.rows("lately_closed", since=now - LATELY):
                return []
            left = [rows.LIVE.of(row) for row in tx.rows("left_behind", limit=LEFT_BEHIND)]
        self._looked_at = now
        if not left:
            return []
        outcome = Lost("its worker had been closed")
        return list(self._queue.settle([Finished(live, outcome, now) for live in left]).changes)

    def _time_to_look(self, now: datetime) -> bool:
        return self._looked_at is None or not timedelta(0) <= now - self._looked_at < LATELY

    def _close(
        self,
        worker_id: UUID,
        now: datetime,
        closed_as: str,
        end: Callable[[FencedId], Lost | Interrupted | None],
        if_seen: datetime | None,
    ) -> list[Change]:
        """Close the worker in one transaction; if a row of its work is refused, close it all the same and leave the
        row."""
        try:
            with self._database.write() as tx:
                if not self._close_row(tx, worker_id, now, closed_as, if_seen):
                    return []
                return list(self._queue.settle_in(tx, self._held(tx, worker_id, now, end)).changes)
        except RowRefused as error:
            log.error("The work of a worker cannot be settled now: worker_id=%s error=%s", worker_id, error)
            with self._database.write() as tx:
                self._close_row(tx, worker_id, now, closed_as, if_seen)
            return []

    def _close_row(self, tx: Tx, worker_id: UUID, now: datetime, closed_as: str, if_seen: datetime | None) -> bool:
        row = tx.row("lock_worker", id=worker_id)
        if row is None or row[3] is not None:
            return False
        renewed_at = from_micros(row[1])
        if if_seen is not None and renewed_at != if_seen:
            return False
        tx.run("close_worker", id=worker_id, now=now, closed_as=closed_as)
        self._tell(tx, now, f"worker.{closed_as}", worker_id, last_seen=str(renewed_at))
        return True

    def _held(
        self, tx: Tx, worker_id: UUID, now: datetime, end: Callable[[FencedId], Lost | Interrupted | None]
    ) -> list[Finished]:
        """End all executions under a worker, except those without an outcome."""
        held = [rows.LIVE.of(row) for row in tx.rows("held_by", worker=worker_id)]
        return [Finished(live, outcome, now) for live in held if (outcome := end((live.id, live.fence))) is not None]

    # -- queries and commands for people

    def seen(self, now: datetime, since: timedelta = timedelta(days=1), limit: int = 1000) -> list[WorkerRow]:
        """List the workers seen lately, the newest first."""
        with self._database.read() as tx:
            return [rows.WORKER.of(row) for row in tx.rows("list_workers", since=now - since, limit=limit)]

    def drain(self, worker_id: UUID, now: datetime, by: str) -> None:
        """Ask a worker to claim no more."""
        with self._database.write() as tx:
            if not tx.run("ask_to_drain", id=worker_id, now=now):
                raise NotFound(f"There is no worker {worker_id} at work.")
            self._tell(tx, now, "worker.drain_asked", worker_id, by=by)

    def known_tasks(self, now: datetime) -> frozenset[str]:
        """Return every task known to a worker of the last 30 days."""
        with self._database.read() as tx:
            lists = [json.loads(tasks) for (tasks,) in tx.rows("known_tasks", since=now - TASKS_KNOWN_FOR)]
        return frozenset(name for names in lists for name in names)

    def task_schemas(self, names: Collection[str]) -> dict[str, TaskSchema]:
        """Return the descriptions of these tasks by their workers."""
        with self._database.read() as tx:
            found = tx.rows("task_schemas", names=list(names))
        return {name: TaskSchema(name, **json.loads(described)) for name, described in found}

    def forget_tasks(self, now: datetime) -> None:
        """Delete the schemas of tasks that no worker of the last 30 days knew."""
        with self._database.read() as tx:
            described = {name for (name,) in tx.rows("described_tasks")}
        if unknown := sorted(described - self.known_tasks(now)):
            with self._database.write() as tx:
                tx.run("forget_tasks", names=unknown)

    def queues(self) -> list[QueueRow]:
        with self._database.read() as tx:
            return [rows.QUEUE.of(row) for row in tx.rows("list_queues")]

    def pause_queue(self, name: str, now: datetime, by: str) -> None:
        """Pause a queue: from this commit on none of its executions starts."""
        self._set_pause(name, now, now, by, "queue.paused")

    def resume_queue(self, name: str, now: datetime, by: str) -> None:
        self._set_pause(name, None, now, by, "queue.resumed")

    def bound_queue(self, name: str, max_queued: int | None, now: datetime, by: str) -> None:
        """Bound a queue: the schedule fires into it only while fewer than this may start."""
        with self._database.write() as tx:
            tx.run("add_queues", [(name,)])
            tx.run("set_queue_bound", name=name, max_queued=max_queued)
            self._tell(tx, now, "queue.bounded", None, by=by, queue=name, max_queued=max_queued)
            tx.notify()

    def _set_pause(self, name: str, paused_at: datetime | None, now: datetime, by: str, kind: str) -> None:
        with self._database.write() as tx:
            tx.run("add_queues", [(name,)])
            tx.row("lock_queue", name=name)
            tx.run("set_queue_pause", name=name, paused_at=paused_at, by=by if paused_at else "")
            self._tell(tx, now, kind, None, by=by, queue=name)
            tx.notify()

    def _tell(self, tx: Tx, now: datetime, kind: str, worker_id: UUID | None, by: str = "", **data: object) -> None:
        event = Event(self._chance.id(now), now, kind, worker_id=worker_id, by=by, data=json.dumps(data))
        tx.run("insert_events", [rows.EVENT.row(event)])


def _described(task: TaskSchema) -> tuple[str, str]:
    return task.name, json.dumps({"help": task.help, "args": task.args})
