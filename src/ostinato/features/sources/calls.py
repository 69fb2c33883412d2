"""Calls of a running `fetch` to its worker: they open and fill its table under the fence of the run.

Requests are values of this process, such as the rows of a page and the function that makes its checkpoint. They are
passed as they are, so a task in a process of its own cannot make these calls.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ostinato.core.errors import Invalid
from ostinato.core.model import Live
from ostinato.core.payload import encode
from ostinato.features.sources.rows import Hold, SourceRecords
from ostinato.features.sources.rules.tables import MappedColumn, Row, Target
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.task import CallReply

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
class StoreRequest:
    """A page to store, and the function that makes its checkpoint from the number of new rows."""

    target: Target
    chunks: Iterable[Sequence[Row]]
    checkpoint: Callable[[int], object]


def _open(kernel: Kernel, live: Live, target: Target) -> CallReply:
    return CallReply(kernel.part(SourceRecords).prepare(target, Hold(live.id, live.fence)))


def _greatest(kernel: Kernel, _live: Live, asked: GreatestRequest) -> CallReply:
    return CallReply(kernel.part(SourceRecords).greatest(asked.target, asked.column))


def _has_stored(kernel: Kernel, _live: Live, target: Target) -> CallReply:
    return CallReply(bool(kernel.part(SourceRecords).newest(target, 1)))


def _pack(kernel: Kernel, _live: Live, asked: PackRequest) -> CallReply:
    return CallReply(kernel.part(SourceRecords).pack(asked.target, asked.rows))


def _store(kernel: Kernel, live: Live, page: StoreRequest) -> CallReply:
    def checkpoint(new: int) -> str:
        return encode(page.checkpoint(new), "checkpoint")

    hold, now = Hold(live.id, live.fence), kernel.clock.now()
    new = kernel.part(SourceRecords).insert(page.target, page.chunks, hold, checkpoint, now)
    return CallReply(new, checkpoint(new))


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
    "pack": _call(PackRequest, _pack),
    "store": _call(StoreRequest, _store),
}
