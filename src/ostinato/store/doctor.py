"""Queries of `ostinato doctor`: the condition of workers, queues and the database."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ostinato.core.audit import AuditFlaw
from ostinato.core.model import EPOCH, Json
from ostinato.core.read_models import QueueRow, WorkerRow
from ostinato.core.times import DAY
from ostinato.store import rows
from ostinato.store.audit import recent_flaws
from ostinato.store.clock_record import noted_instant
from ostinato.store.database import Database
from ostinato.store.rows import from_micros
from ostinato.store.workers import WENT_BACK

FLAWS_SHOWN_FOR: Final = 2 * DAY  # flaws reported by the auditor; one that persists is reported daily


@dataclass(frozen=True, slots=True)
class Wanted:
    """The number of jobs that have not ended, for one task in one queue."""

    task: str
    queue: str
    jobs: int


@dataclass(frozen=True, slots=True)
class QueueWaiting:
    """Executions of a queue that could have started by now."""

    queue: str
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class DoctorSnapshot:
    """The condition of the system in one snapshot."""

    version: str  # of the database server
    wanted: tuple[Wanted, ...]
    waiting: tuple[QueueWaiting, ...]
    unfired: int
    unfired_since: datetime | None
    set_aside: int
    unsaved: int  # results that cannot be saved and that their workers hold
    workers: tuple[WorkerRow, ...]
    queues: tuple[QueueRow, ...]
    went_back_at: datetime | None = None  # when the database was last found to have lost commits, if lately
    flaws: tuple[AuditFlaw, ...] = ()  # reported by the auditor


class Checkup:
    """The checks, without any change."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def naming_secrets(self, limit: int) -> list[tuple[str, Json]]:
        """List the jobs of built-in tasks that can name a secret: their name and args."""
        tasks = sorted(self._database.features.secrets)
        with self._database.read() as tx:
            found = tx.rows("naming_secrets", tasks=tasks, limit=limit)
        return [(key or name or task, args) for key, name, task, args in found]

    def condition(self, now: datetime, patience: timedelta, lately: timedelta) -> DoctorSnapshot:
        """Read the condition. Due times older than `patience` are late; workers seen within `lately` are alive."""
        with self._database.read() as tx:
            ((version,),) = tx.rows("database_version")
            went_back = noted_instant(tx, WENT_BACK) or EPOCH
            ((unfired, oldest),) = tx.rows("unfired", before=now - patience)
            return DoctorSnapshot(
                version=str(version),
                wanted=tuple(Wanted(*row) for row in tx.rows("wanted")),
                waiting=tuple(QueueWaiting(q, n, from_micros(at)) for q, n, at in tx.rows("backlog", now=now)),
                unfired=unfired,
                unfired_since=None if oldest is None else from_micros(oldest),
                set_aside=tx.rows("jobs_aside")[0][0],
                unsaved=tx.rows("unsaved_results")[0][0],
                workers=tuple(map(rows.WORKER.of, tx.rows("list_workers", since=now - lately, limit=1000))),
                queues=tuple(map(rows.QUEUE.of, tx.rows("list_queues"))),
                went_back_at=went_back if went_back >= now - lately else None,
                flaws=tuple(recent_flaws(tx, now - FLAWS_SHOWN_FOR)),
            )
