"""The interface to tables of users, for runs that store records."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from ostinato.core.model import Json
from ostinato.core.tables import Cell, MappedColumn, Row, TableState, Target


class Tables(Protocol):
    """Tables of users, for a run. All methods wait for the database."""

    def open(self, target: Target) -> TableState:
        """Create a table if it is missing; raise Invalid if an existing one does not fit."""

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        """Return the greatest value that a source has stored in a column."""

    def has_stored(self, target: Target) -> bool:
        """Return True if a source has a row in its table."""

    def pack(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        """Prepare rows for `store`."""

    def store(
        self,
        execution_id: UUID,
        fence: int,
        target: Target,
        chunks: Iterable[Sequence[Row]],
        checkpoint: Callable[[int], Json],
    ) -> int:
        """Store rows and a checkpoint in one transaction; return the number of new rows.

        `checkpoint` gets that number. Raise LeaseLost if the run has lost its lease.
        """
