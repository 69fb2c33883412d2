"""Requests of a run that stores records to its worker."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from ostinato.core.model import Json
from ostinato.core.tables import Cell, MappedColumn, Row, TableState, Target


class Tables(Protocol):
    """Tables of users, as a run writes to them. All of it waits for the database."""

    def open(self, target: Target) -> TableState:
        """Make sure that a table can be written to: made if it is missing, Invalid if it does not fit."""

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        """The greatest value of a column that a source has stored."""

    def has_stored(self, target: Target) -> bool:
        """Say whether a source has a row in its table."""

    def pack(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows ready for their database, ahead of being stored."""

    def store(
        self,
        execution_id: UUID,
        fence: int,
        target: Target,
        chunks: Iterable[Sequence[Row]],
        checkpoint: Callable[[int], Json],
    ) -> int:
        """Store rows together with the checkpoint, which may tell how many of them were new; how many that is.

        LeaseLost when this run may write no more.
        """
