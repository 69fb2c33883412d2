"""The table of a source, as its run uses it: by calls to the worker, which wait for the database."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from ostinato.features.sources.calls import GreatestRequest, PackRequest, PublishRequest, StageRequest, StoreRequest
from ostinato.features.sources.rows import Opened, Stored
from ostinato.features.sources.rules.tables import Cell, MappedColumn, Row, Target
from ostinato.task import Context


class RunTable:
    """The table of one run. Each method raises LeaseLost if the run has lost its lease."""

    def __init__(self, ctx: Context, target: Target) -> None:
        self._ctx, self._target = ctx, target
        self._at = ""  # the time from which the versions of this run are valid

    def open(self) -> None:
        """Create the table if it is missing; raise Invalid if an existing one does not fit."""
        opened = cast(Opened, self._ctx.call("sources.open", self._target))
        self._at = opened.at

    def greatest(self, column: MappedColumn) -> Cell:
        """Return the greatest value that the source has stored in a column."""
        return cast(Cell, self._ctx.call("sources.greatest", GreatestRequest(self._target, column)))

    def has_stored(self) -> bool:
        """Return True if the source has a row in the table."""
        return bool(self._ctx.call("sources.has_stored", self._target))

    def state(self) -> Cell:
        """Return the state of the source; None before its first complete window."""
        return cast(Cell, self._ctx.call("sources.state", self._target))

    def stage(self, expected: int) -> bool:
        """Return True if the stage has this number of rows; otherwise it is empty now."""
        return bool(self._ctx.call("sources.stage", StageRequest(self._target, expected)))

    def pack(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Prepare rows for `store`."""
        return cast(Sequence[Row], self._ctx.call("sources.pack", PackRequest(self._target, rows)))

    def store(
        self, chunks: Iterable[Sequence[Row]], checkpoint: Callable[[Stored], object], state: Cell = None
    ) -> Stored:
        """Store a page, its checkpoint and the new state of the source in one transaction; return the changes.

        `checkpoint` makes the checkpoint of them. `chunks` may be iterated twice.
        """
        request = StoreRequest(self._target, chunks, checkpoint, self._at, state)
        return cast(Stored, self._ctx.call("sources.store", request))

    def publish(self, checkpoint: Callable[[Stored], object], most_deleted: float) -> Stored:
        """Make the table equal to what the run has brought."""
        request = PublishRequest(self._target, checkpoint, self._at, most_deleted)
        return cast(Stored, self._ctx.call("sources.publish", request))
