"""Declared jobs that were deleted, as rows."""

import json
from datetime import datetime
from typing import Final

from ostinato.core.model import Chance, DeclinedJob, Event, Job
from ostinato.store import rows
from ostinato.store.database import Database, Tx

DECLINED: Final = rows.Shape(DeclinedJob)


class Declined:
    """Table of declared jobs that stay deleted."""

    def __init__(self, database: Database, chance: Chance) -> None:
        self._database, self._chance = database, chance

    def list(self) -> list[DeclinedJob]:
        """List the declared jobs of all apps that stay deleted."""
        with self._database.read() as tx:
            return [DECLINED.of(row) for row in tx.rows("list_declined")]

    def remove(self, row: DeclinedJob, now: datetime, by: str) -> bool:
        """Allow the declaration to make its job again. Return False if another call has done so."""
        with self._database.write() as tx:
            removed = bool(tx.run("remove_declined", app=row.app, key=row.key, declared=row.declared))
            if removed:
                data = json.dumps({"app": row.app, "key": row.key})
                event = Event(self._chance.id(now), now, "job.redeclared", by=by, data=data)
                tx.run("insert_events", [rows.EVENT.row(event)])
        return removed


def decline(tx: Tx, job: Job, by: str) -> str | None:
    """Note that a declared job was deleted, and return its key; a job that no code declares has none."""
    key, declared, at = job.definition.key, job.definition.declared, job.facts.deleted_at
    if key is None or declared is None:
        return None
    tx.run("decline", app=job.definition.app, key=key, declared=declared, now=at, by=by)
    return key
