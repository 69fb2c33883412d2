"""The fast path of firing and of settling: few rows are written, and for a success none are read and no values made.

Of a batch of successes the database itself detects special jobs and runs, under the same locks that a full settle
takes; those runs get a full settle. `Store(fast_path=False)` leaves everything to the rules, and the simulation
compares what the two leave in the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.lifecycle.fast_path import last_time, may_be_plain
from ostinato.core.model import AskedBy, Change, Finished
from ostinato.store.database import Row, Shared, Tx
from ostinato.store.dialect import DatabaseKind
from ostinato.store.rows import to_bytes

SCHEDULE: Final = AskedBy.SCHEDULE  # a lookup in an Enum is a call
EXPECTING: Final = "lock_expecting"
LAST_TIME: Final = 4  # its position in a row of the batch


@dataclass(frozen=True, slots=True)
class Expected:
    """Runs that may be plain successes, by job, and the batch with their expected state."""

    candidates: Mapping[bytes, Finished]
    batch: Shared
    worker: UUID | None  # the worker that holds them all


EXPECTS_NOTHING: Final = Expected({}, Shared(), None)


def save_fired(tx: Tx, changes: Sequence[Change], now: datetime) -> None:
    """Save plain firings: a third of the rows of `locking.save`, at half its cost."""
    if not changes:
        return
    facts = [(each.job.id, each.job.facts) for each in changes]
    tx.touch(job_id for job_id, _ in facts)
    tx.run("fire_plainly", [(job_id, each.last_due_at, each.next_due_at) for job_id, each in facts], now=now)
    tx.run("queue_fired", [(each.add[0].id, each.job.id) for each in changes], now=now)


def expected_of(finished: Sequence[Finished]) -> Expected:
    """Return the expectations. Call this before the transaction: on SQLite other writers wait for its end."""
    worker = finished[0].live.worker_id if finished else None
    candidates = {  # of one worker, which is the same object; others are settled in full
        to_bytes(each.live.job_id): each for each in finished if each.live.worker_id is worker and may_be_plain(each)
    }
    if not candidates:
        return EXPECTS_NOTHING
    batch = Shared([_expecting(job_id, each) for job_id, each in candidates.items()])
    if len(candidates) < len(finished):
        batch += _others(finished, candidates)
    return Expected(candidates, batch, worker)


def settle_plainly(tx: Tx, kind: DatabaseKind, expected: Expected) -> list[Finished]:
    """Settle the plain successes and return them; afterwards all jobs are locked."""
    candidates, batch = expected.candidates, expected.batch
    if not candidates:
        return []
    if tx.row(EXPECTING, batch, worker=expected.worker) != (len(batch), len(batch)):
        plain = {job_id for (job_id,) in tx.rows("jobs_as_expected", batch, worker=expected.worker)}
        candidates = {job_id: each for job_id, each in candidates.items() if job_id in plain}
        batch = Shared([row for row in batch if row[1] in candidates])
    _write(tx, kind, batch)
    return list(candidates.values())


def _expecting(job_id: bytes, each: Finished) -> Row:
    live, definition = each.live, each.definition
    return (
        live.id, job_id, live.fence, live.version, last_time(definition), each.at,  # type: ignore[arg-type]
        int(live.asked is SCHEDULE), each.outcome.result, each.account,  # type: ignore[union-attr]
    )  # fmt: skip


def _others(finished: Sequence[Finished], candidates: Mapping[bytes, Finished]) -> list[Row]:
    """List jobs without expectations, to be locked in one statement with the others."""
    jobs = {to_bytes(each.live.job_id): each.live.id for each in finished}
    return [(live_id, job_id, *[None] * 7) for job_id, live_id in jobs.items() if job_id not in candidates]


def _write(tx: Tx, kind: DatabaseKind, batch: Sequence[Row]) -> None:
    ending = sum(row[LAST_TIME] is not None for row in batch)
    if ending:
        tx.run("end_with_success", batch)
    if ending < len(batch):
        tx.run("count_success", batch)
    if batch:
        tx.run("move_completed", batch)
        if kind is DatabaseKind.SQLITE:  # on PostgreSQL the same statement deletes them from `live`
            tx.run("delete_live", ids=[row[0] for row in batch])
