"""Repeating jobs for the schedules API: by its status words, with its counters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ostinato.store.rows import to_uuid
from ostinato.store.store import Store


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of a job at its restart."""

    completed: int
    errors: int


class Schedules:
    """Queries about repeating jobs."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def page(self, word: str | None, tag: str | None, limit: int, offset: int) -> tuple[list[UUID], int]:
        """Return a page of repeating jobs, the newest first, and their total."""
        chosen: dict[str, Any] = {"word": word, "tag": None if tag is None else json.dumps(tag)}
        with self._database.read() as tx:
            found = tx.rows("newest_schedules", **chosen, limit=limit, offset=offset)
            ((total,),) = tx.rows("count_schedules", **chosen)
        return [to_uuid(job_id) for (job_id,) in found], int(total)

    def last_errors(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return the latest error of each job that history still has."""
        with self._database.read() as tx:
            found = tx.rows("last_errors", ids=list(ids))
        return {to_uuid(job_id): error for job_id, error in found}

    def restarts(self, ids: Sequence[UUID]) -> dict[UUID, Counted]:
        """Return the counters of restarted jobs at their restart."""
        with self._database.read() as tx:
            found = tx.rows("restarts", ids=list(ids))
        return {to_uuid(job_id): _counted(json.loads(text)) for job_id, text in found}


def _counted(saved: Mapping[str, int]) -> Counted:
    return Counted(saved["completed"], saved["errors"])
