"""Taking one job: it is fired if due, and one of its executions is claimed, in one transaction.

This is for workers that are called for a job and do not look for work themselves (RQ). If the job is paused, cancelled,
deleted, not due, or claimed by another worker, nothing is taken and nothing changes.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core.model import Change, Claimed, Job, Live
from ostinato.features.rq.rules import MAY_START, id_of
from ostinato.store import locking, rows
from ostinato.store.database import Tx
from ostinato.store.firing import Firing, lock_one
from ostinato.store.rows import to_uuid
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """The result of taking a job: the claimed execution, and the changes that this needed."""

    claimed: Claimed | None = None
    changes: tuple[Change, ...] = ()
    unknown: str | None = None  # task of the first ready execution, if this worker knows none of the ready tasks
    limited: bool = False  # an execution with a limit was unclaimed before this claim: the caller runs let_through


@dataclass(frozen=True, slots=True)
class _Present:
    """A job and its live rows now; the job is None if it was deleted."""

    job: Job | None
    lives: tuple[Live, ...]


class Taking(Firing):
    """Claims by a worker that was called for one job."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.database, store.definitions, store.chance, store.writers, store.steps)

    def take(
        self,
        job_id: UUID,
        worker: NewWorker,
        clock: Callable[[], datetime],
        lease: timedelta,
        message: str = "",
    ) -> TakenMessage:
        """Fire the job if it is due, and start one execution under a lease that begins with it.

        The execution named by the message goes first. The clock is read under the lock of the job.
        """
        with self._database.write() as tx:
            served = {name for (name,) in tx.rows("share_open_queues")}
            job, now = self._locked(tx, job_id), clock()
            if job is None:
                return TakenMessage()
            lives: Sequence[Live] = locking.lives_of(tx, [job_id])[job_id]
            fired = self._fire_one(tx, job, lives, now)
            if fired:
                lives = locking.lives_of(tx, [job_id])[job_id]
            ready = [live for live in lives if _may_start(live, now) and live.queue in served]
            known = [live for live in ready if live.task in worker.tasks and not self._is_strange(lives, live)]
            limited = any(live.limit_key is not None and live.worker_id is None for live in lives)
            if not known:
                unknown_task = ready[0].task if ready else None
                # park: no worker claims these rows until one comes that knows their task
                tx.run("park", ids=[live.id for live in ready])
                return TakenMessage(None, fired, unknown_task, limited)
            first = min(known, key=lambda live: (id_of(live) != message, live.priority, live.run_at))
            claimed = self._start(tx, job, first, worker, now, lease)
        return TakenMessage(claimed, fired, None, limited)

    def present(self, ids: Sequence[UUID]) -> dict[UUID, _Present]:
        """Read these jobs and their live rows from one snapshot; live rows of deleted jobs are included."""
        with self._database.read() as tx:
            facts = dict(map(rows.facts_of, tx.rows("facts", ids=list(ids))))
            jobs = locking.with_definitions(tx, self._definitions, facts)
            lives = locking.lives_of(tx, list(ids), "live_of")
        return {job_id: _Present(jobs.get(job_id), tuple(lives[job_id])) for job_id in ids}

    def jobs_awaited(self, after: UUID, limit: int) -> list[UUID]:
        """List the next job ids after `after` that have a next due time or a live row (queued, waiting or running)."""
        with self._database.read() as tx:
            return [to_uuid(job_id) for (job_id,) in tx.rows("jobs_awaited", after=after, limit=limit)]

    def closed_queues(self) -> frozenset[str]:
        """Return the paused queues."""
        with self._database.read() as tx:
            return frozenset(name for (name,) in tx.rows("closed_queues"))

    # -- within

    def _locked(self, tx: Tx, job_id: UUID) -> Job | None:
        found = lock_one(tx, job_id)
        if not found or found[0][1].deleted_at is not None:
            return None
        return locking.with_definitions(tx, self._definitions, dict(found)).get(job_id)

    def _fire_one(self, tx: Tx, job: Job, lives: Sequence[Live], now: datetime) -> tuple[Change, ...]:
        due = job.facts.next_due_at
        if due is None or due > now:
            return ()
        change = self._fire(tx, job, lives, now)
        if change.job.facts == job.facts:
            return ()
        locking.save(tx, [change], {job.id: job.facts})
        self._writers.write(tx, [change])
        return (change,)

    def _start(self, tx: Tx, job: Job, live: Live, worker: NewWorker, now: datetime, lease: timedelta) -> Claimed:
        tx.run("forget_predecessors", host=worker.host, pid=worker.pid)
        tx.run(
            "insert_worker", id=worker.id, app=worker.app, host=worker.host, pid=worker.pid, version=worker.version,
            tasks=json.dumps(sorted(worker.tasks)), queues=json.dumps(sorted(worker.queues)),
            concurrency=worker.concurrency, now=now, lease_until=now + lease,
        )  # fmt: skip
        started = replace(
            live, worker_id=worker.id, started_at=now, fence=live.fence + 1, version=job.facts.version, waits_for=None,
            progress=None,
        )  # fmt: skip
        tx.run(
            "take_one",
            id=live.id,
            worker=worker.id,
            now=now,
            fence=started.fence,
            job_version=started.version,
        )
        if not live.step:
            return Claimed(started, job.definition)
        own = self._steps.definitions(tx, [started], {job.id: job.definition}, now)
        return Claimed(started, own.get(live.id) or job.definition)

    def _is_strange(self, lives: Sequence[Live], live: Live) -> bool:
        """Return True for a step whose rules are missing here."""
        return bool(live.step) and self._steps.missing(lives, live) is not None


def _may_start(live: Live, now: datetime) -> bool:
    """Return True if the execution is unclaimed, due and not blocked.

    One with a limit must first be admitted by `let_through`.
    """
    if live.worker_id is not None or live.run_at > now or live.waits_for not in MAY_START:
        return False
    return live.limit_key is None or live.waits_for is None
