"""Calls of a running `fetch` to its worker: they open and fill its table under the fence of the run.

Requests are values of this process, such as the rows of a page and the function that makes its checkpoint. They are
passed as they are, so a task in a process of its own cannot make these calls.

`RunTable` makes these calls for a run.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from ostinato.core.errors import Invalid
from ostinato.core.model import Live
from ostinato.core.payload import encode
from ostinato.features.sources.rows import Hold, Opened, SourceRecords, Stored
from ostinato.features.sources.rules.tables import Cell, MappedColumn, Row, Target
from ostinato.features.sources.states import SourceStates
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply, Context

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class GreatestRequest:
    """The column whose greatest value is asked for."""

    target: Target
    column: MappedColumn


@dataclass(frozen=True, slots=True)
class PackRequest:
    """Rows to prepare for their database."""

    target: Target
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class StageRequest:
    """The number of rows that the stage of a run should have."""

    target: Target
    expected: int


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A page to store, and the function that makes its checkpoint of the result."""

    target: Target
    chunks: Iterable[Sequence[Row]]
    checkpoint: Callable[[Stored], object]
    at: str = ""
    state: Cell = None  # the new state of the source, if it advances


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The end of a run, whose stage the table is made equal to."""

    target: Target
    checkpoint: Callable[[Stored], object]
    at: str
    most_deleted: float


def _open(kernel: Kernel, live: Live, target: Target) -> CallReply:
    started = live.started_at or kernel.clock.now()
    return CallReply(kernel.part(SourceRecords).open(target, _hold(live), started))


def _greatest(kernel: Kernel, _live: Live, asked: GreatestRequest) -> CallReply:
    return CallReply(kernel.part(SourceRecords).greatest(asked.target, asked.column))


def _has_stored(kernel: Kernel, _live: Live, target: Target) -> CallReply:
    return CallReply(bool(kernel.part(SourceRecords).newest(target, 1)))


def _state(kernel: Kernel, live: Live, _target: Target) -> CallReply:
    return CallReply(kernel.part(SourceStates).get(live.job_id))


def _stage(kernel: Kernel, live: Live, asked: StageRequest) -> CallReply:
    return CallReply(kernel.part(SourceRecords).stage(asked.target, _hold(live), asked.expected))


def _pack(kernel: Kernel, _live: Live, asked: PackRequest) -> CallReply:
    return CallReply(kernel.part(SourceRecords).pack(asked.target, asked.rows))


def _store(kernel: Kernel, live: Live, page: StoreRequest) -> CallReply:
    checkpoint, now = _text_of(page.checkpoint), kernel.clock.now()
    records = kernel.part(SourceRecords)
    stored = records.insert(page.target, page.chunks, _hold(live), checkpoint, now, page.at, page.state)
    return CallReply(stored, checkpoint(stored))


def _publish(kernel: Kernel, live: Live, end: PublishRequest) -> CallReply:
    checkpoint, now = _text_of(end.checkpoint), kernel.clock.now()
    records = kernel.part(SourceRecords)
    stored = records.publish(end.target, _hold(live), checkpoint, now, end.at, end.most_deleted)
    return CallReply(stored, checkpoint(stored))


def _hold(live: Live) -> Hold:
    return Hold(live.id, live.fence, live.job_id, live.execution_number)


def _text_of(checkpoint: Callable[[Stored], object]) -> Callable[[Stored], str]:
    return lambda stored: encode(checkpoint(stored), "checkpoint")


def _call(kind: type[R], answer: Callable[[Kernel, Live, R], CallReply]) -> TaskCall:
    def checked(kernel: Kernel, live: Live, request: Any) -> CallReply:
        if not isinstance(request, kind):
            raise Invalid("Tables of sources are for the task fetch: make a source, or write to a table of your own.")
        return answer(kernel, live, request)

    return TaskCall(checked)


CALLS: Final = {
    "open": _call(Target, _open),
    "greatest": _call(GreatestRequest, _greatest),
    "has_stored": _call(Target, _has_stored),
    "state": _call(Target, _state),
    "stage": _call(StageRequest, _stage),
    "pack": _call(PackRequest, _pack),
    "store": _call(StoreRequest, _store),
    "publish": _call(PublishRequest, _publish),
}


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
