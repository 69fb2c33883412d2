"""The table of a source, as its run uses it: by calls to the worker, which wait for the database."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from ostinato.features.sources.calls import GreatestRequest, PackRequest, StoreRequest
from ostinato.features.sources.rules.tables import Cell, MappedColumn, Row, Target
from ostinato.task import Context


class RunTable:
    """The table of one run. Each method raises LeaseLost if the run has lost its lease."""

    def __init__(self, ctx: Context, target: Target) -> None:
        self._ctx, self._target = ctx, target

    def open(self) -> None:
        """Create the table if it is missing; raise Invalid if an existing one does not fit."""
        self._ctx.call("sources.open", self._target)

    def greatest(self, column: MappedColumn) -> Cell:
        """Return the greatest value that the source has stored in a column."""
        return cast(Cell, self._ctx.call("sources.greatest", GreatestRequest(self._target, column)))

    def has_stored(self) -> bool:
        """Return True if the source has a row in the table."""
        return bool(self._ctx.call("sources.has_stored", self._target))

    def pack(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Prepare rows for `store`."""
        return cast(Sequence[Row], self._ctx.call("sources.pack", PackRequest(self._target, rows)))

    def store(self, chunks: Iterable[Sequence[Row]], checkpoint: Callable[[int], object]) -> int:
        """Store a page and its checkpoint in one transaction; return the number of new rows.

        `checkpoint` makes the checkpoint from that number. `chunks` may be iterated twice.
        """
        return int(self._ctx.call("sources.store", StoreRequest(self._target, chunks, checkpoint)))
