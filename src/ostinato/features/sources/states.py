"""The states of sources: how far each has read its API, a row for each job and part.

A run saves its state in the transaction of a page, under its fence (`save_source_state`). A person sets or resets it
only while no run is in progress, since that run would overwrite it.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ostinato.core.errors import Conflict
from ostinato.core.payload import encode
from ostinato.store.database import Tx
from ostinato.store.rows import from_micros
from ostinato.store.store import Store

WHOLE: Final = ""  # the part of a source without parts


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a part: the value from which its next run asks for records."""

    part: str
    cursor: Any
    saved_at: datetime


class SourceStates:
    """Table of the states of sources."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def get(self, job: UUID, part: str = WHOLE) -> Any:
        """Return the cursor of a part; None if it has no state."""
        with self._database.read() as tx:
            found = tx.row("get_source_state", job=job, part=part)
        return None if found is None else json.loads(found[0])

    def list(self, job: UUID, after: str | None = None, limit: int = 100) -> list[SourceState]:
        """List the states of a source by part, after one of them."""
        with self._database.read() as tx:
            found = [] if after is not None else tx.rows("get_source_state", job=job, part=WHOLE)
            states = [SourceState(WHOLE, json.loads(cursor), from_micros(at)) for cursor, at in found]
            rest = tx.rows("list_source_states", job=job, after_part=after or WHOLE, limit=limit - len(states))
        return states + [SourceState(part, json.loads(cursor), from_micros(at)) for part, cursor, at in rest]

    def set(self, job: UUID, cursor: Any, now: datetime, part: str = WHOLE) -> None:
        """Set the cursor of a part; Conflict while a run is in progress."""
        with self._database.write() as tx:
            _require_idle(tx, job)
            tx.run("set_source_state", job=job, part=part, cursor=encode(cursor, "cursor"), now=now)

    def reset(self, job: UUID, part: str | None = None) -> int:
        """Forget the state of a part, or of all; return the number. Conflict while a run is in progress."""
        with self._database.write() as tx:
            _require_idle(tx, job)
            if part is None:
                return tx.run("reset_source_states", job=job)
            return tx.run("reset_source_state", job=job, part=part)


def _require_idle(tx: Tx, job: UUID) -> None:
    if tx.row("source_is_running", job=job) is not None:
        raise Conflict("A run of this source is in progress and will save its state: wait for its end, or cancel it.")
