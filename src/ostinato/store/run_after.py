"""Following: a job runs because another has completed.

The settle of the other job raises its counter in its own transaction. That serves as the note: once per completion,
safe across crashes, and free for jobs without followers. Here the counter is compared with the follower's position.
Each missing completion starts a run, in one transaction with the position: exactly once. No transaction locks two jobs
at once, so the order of locks is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.lifecycle import follow
from ostinato.core.model import Change
from ostinato.store import locking
from ostinato.store.adapt import to_uuid
from ostinato.store.database import Tx
from ostinato.store.locking import QueueDuty

BATCH: Final = 100
NOBODY: Final[Mapping[UUID, UUID]] = {}


@dataclass(frozen=True, slots=True)
class Followed:
    """The executions that were started, and whether any job follows another."""

    changes: tuple[Change, ...] = ()
    any: bool = False


class Following(QueueDuty):
    """Following: the dispatcher starts jobs that run after others."""

    def follow(self, now: datetime) -> Followed:
        """Start jobs whose other job has completed, once per completion, as soon as they have room."""
        with self._database.read() as tx:
            if not tx.rows("dependencies_there")[0][0]:
                return Followed()
            ids = [to_uuid(job_id) for (job_id,) in tx.rows("to_follow", limit=BATCH)]
        changes = [change for job_id in ids if (change := self._follow(job_id, now)) is not None]
        return Followed(tuple(changes), any=True)

    def _follow(self, job_id: UUID, now: datetime) -> Change | None:
        with self._database.write() as tx:
            job = locking.locked_jobs(tx, self._definitions, [job_id]).get(job_id)
            if job is None:
                return None
            change = follow(job, locking.lives_of(tx, [job_id])[job_id], now, self._chance)
            if change is None or not tx.run("followed", id=job_id):
                return None
            locking.save(tx, [change])
            self._writers.write(tx, [change])
            tx.notify()
        return change


def come_after(tx: Tx, after: Mapping[UUID, UUID]) -> None:
    """Set which jobs these jobs follow."""
    tx.run("delete_dependencies_of", ids=list(after))
    tx.run("insert_dependencies", [*after.items()])
    tx.notify()


def chain(tx: Tx, job_id: UUID, most: int = 1000) -> list[UUID]:
    """List a job, the job that it runs after, and so on."""
    found = [job_id]
    while len(found) < most and (row := tx.row("dependencies_of", ids=[found[-1]])) is not None:
        found.append(to_uuid(row[1]))
    return found
