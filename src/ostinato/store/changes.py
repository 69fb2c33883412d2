"""Rows that features write in the transactions in which changes of jobs are saved, such as notices."""

from collections.abc import Sequence
from typing import Protocol

from ostinato.core.model import Change, Event
from ostinato.store.database import Tx


class ChangeWriter(Protocol):
    """The part of a feature that writes rows about changes. Its errors undo the changes too, so it catches its bugs."""

    @property
    def wants_successes(self) -> bool:
        """True while it writes about plain successes; then they are settled with a Change, which takes longer."""

    def write(self, tx: Tx, changes: Sequence[Change]) -> None:
        """Write about the changes of a transaction."""

    def write_events(self, tx: Tx, events: Sequence[Event]) -> None:
        """Write about events that no change carries."""


class ChangeWriters:
    """The writers of a process. There are none until a feature adds its own, when it is first used."""

    def __init__(self) -> None:
        self._writers: tuple[ChangeWriter, ...] = ()

    def add(self, writer: ChangeWriter) -> None:
        self._writers += (writer,)

    @property
    def want_successes(self) -> bool:
        return any(each.wants_successes for each in self._writers)

    def write(self, tx: Tx, changes: Sequence[Change]) -> None:
        for each in self._writers:
            each.write(tx, changes)

    def write_events(self, tx: Tx, events: Sequence[Event]) -> None:
        for each in self._writers:
            each.write_events(tx, events)
