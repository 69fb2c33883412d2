"""Imports as rows: the record of each, and the jobs that came with it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.lifecycle import Adopted
from ostinato.core.model import uuid_of
from ostinato.features.transfer.rules.found import ImportRecord
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.rows import to_uuid
from ostinato.store.store import Store

FIRST: Final = uuid_of(0)
LISTED: Final = 100
IMPORT: Final = rows.Shape(ImportRecord)


class Imports:
    """Tables of imports."""

    def __init__(self, store: Store) -> None:
        self._database, self._store = store.database, store

    def save(self, record: ImportRecord, adopted: Sequence[Adopted], refs: Mapping[UUID, str]) -> list[UUID]:
        """Save jobs with the record of their import; return for each the job that is here now."""

        def note(tx: Tx, new: Sequence[Adopted]) -> None:
            tx.run(
                "note_import", name=record.name, kind=record.kind, source=record.source, jobs=len(new), now=record.at,
                by=record.by,
            )  # fmt: skip
            ids = [each.change.job.id for each in new]
            if ids:
                tx.run("insert_imported", [(job_id, record.name, refs[job_id]) for job_id in ids])

        return self._store.jobs.adopt(adopted, note)

    def get(self, name: str) -> ImportRecord | None:
        with self._database.read() as tx:
            row = tx.row("get_import", name=name)
        return None if row is None else IMPORT.of(row)

    def count(self, name: str) -> int:
        """Count the jobs of an import that are still here."""
        with self._database.read() as tx:
            row = tx.row("count_imported", name=name)
        return 0 if row is None else int(row[0])

    def jobs(self, name: str, limit: int, after: UUID = FIRST) -> list[tuple[UUID, int]]:
        """List the next jobs of an import after an id, each with its version."""
        with self._database.read() as tx:
            found = tx.rows("imported_jobs", name=name, after=after, limit=limit)
        return [(to_uuid(job_id), int(version)) for job_id, version in found]

    def end(self, name: str, now: datetime) -> None:
        """Note that an import was undone. Queues stay: other processes remember which of them are there."""
        with self._database.write() as tx:
            tx.run("end_import", name=name, now=now)

    def list(self) -> list[ImportRecord]:
        """List the newest imports."""
        with self._database.read() as tx:
            return [IMPORT.of(row) for row in tx.rows("list_imports", limit=LISTED)]
