"""Following: a job runs because another has completed.

The settle of that other has raised its counter, in its own transaction, and that is the note: once for each completion,
there after any crash, and nothing that a settle of other jobs would have to write. Here it is compared with how far
the follower has come, and the difference is run off, one completion after the other, each in one transaction with the
counting: exactly once. Nobody holds two jobs at once, so the order of locks is kept.
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
from ostinato.store.locking import Duty

BATCH: Final = 100
NOBODY: Final[Mapping[UUID, UUID]] = {}


@dataclass(frozen=True, slots=True)
class Followed:
    """The executions that were started, and whether any job follows another."""

    changes: tuple[Change, ...] = ()
    any: bool = False


class Following(Duty):
    """Following: the dispatcher starts jobs that run after others."""

    def follow(self, now: datetime) -> Followed:
        """Start those whose other has completed, each once for each completion, as soon as they have room for it."""
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
            self._notices.write(tx, [change])
            tx.ring()
        return change


def come_after(tx: Tx, after: Mapping[UUID, UUID]) -> None:
    """Let jobs follow others from now on, and nobody else."""
    tx.run("delete_dependencies_of", ids=list(after))
    tx.run("insert_dependencies", [*after.items()])
    tx.ring()


def chain(tx: Tx, job_id: UUID, most: int = 1000) -> list[UUID]:
    """A job, the one that it comes after, the one that that comes after …"""
    found = [job_id]
    while len(found) < most and (row := tx.row("dependencies_of", ids=[found[-1]])) is not None:
        found.append(to_uuid(row[1]))
    return found
