"""The worker's side of tasks that store records: their writes carry the fence of their run."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.errors import LeaseLost
from ostinato.core.model import Json
from ostinato.core.tables import Cell, MappedColumn, Row, TableState, Target
from ostinato.engine.lease import Lease
from ostinato.store.records import Hold, SourceRecords


@dataclass(frozen=True, slots=True)
class TableCalls:
    """Access to users' tables for the runs of one worker. Its calls wait for the database."""

    records: SourceRecords
    lease: Lease
    clock: Clock

    def open(self, target: Target) -> TableState:
        return self.records.prepare(target)

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        return self.records.greatest(target, column)

    def has_stored(self, target: Target) -> bool:
        return bool(self.records.newest(target, 1))

    def pack(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        return self.records.pack(target, rows)

    def store(
        self,
        execution_id: UUID,
        fence: int,
        target: Target,
        chunks: Iterable[Sequence[Row]],
        checkpoint: Callable[[int], Json],
    ) -> int:
        if not self.lease.trusted:
            raise LeaseLost("This run no longer holds its execution: nothing was stored.")
        return self.records.insert(target, chunks, Hold(execution_id, fence, checkpoint), self.clock.now())
