"""A database that fails at the worst moments, and tells what was committed all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ostinato.core.errors import StoreUnavailable
from ostinato.core.model import Live
from ostinato.store import rows
from ostinato.store.claiming import WIDTH
from ostinato.store.database import Database


class Crash(BaseException):
    """The process is gone, here and now."""


class Fault(Enum):
    """What may happen to a writing transaction."""

    NONE = "nothing"
    AWAY = "the store is away"
    ROLLED_BACK = "it fails at its commit"
    ANSWER_LOST = "it is committed, and the answer is lost"
    CRASH_BEFORE = "the process dies before the commit"
    CRASH_AFTER = "the process dies after the commit"


class ShakyDatabase:
    """A database as one process sees it: `fault` is asked before each transaction, `committed` is told."""

    def __init__(
        self, inner: Database, fault: Callable[[bool], Fault], committed: Callable[[list[Live]], None]
    ) -> None:
        self._inner, self._fault, self._committed = inner, fault, committed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def write(self, deadline: float | None = None) -> Iterator[Any]:
        fault = self._fault(True)
        if fault is Fault.AWAY:
            raise StoreUnavailable(fault.value)
        with self._inner.write(deadline) as tx:
            witness = Witness(tx)
            yield witness
            if fault is Fault.ROLLED_BACK:
                raise StoreUnavailable(fault.value)
            if fault is Fault.CRASH_BEFORE:
                raise Crash
        self._after_commit(witness, fault)

    @contextmanager
    def alone(self) -> Iterator[Any]:
        """One statement that commits by itself: what is rolled back has not happened at all."""
        fault = self._fault(True)
        if fault in (Fault.AWAY, Fault.ROLLED_BACK):
            raise StoreUnavailable(fault.value)
        if fault is Fault.CRASH_BEFORE:
            raise Crash
        with self._inner.alone() as tx:
            witness = Witness(tx)
            yield witness
        self._after_commit(witness, fault)

    def _after_commit(self, witness: Witness, fault: Fault) -> None:
        self._committed(witness.claimed)
        if fault is Fault.ANSWER_LOST:
            raise StoreUnavailable(fault.value)
        if fault is Fault.CRASH_AFTER:
            raise Crash

    @contextmanager
    def read(self) -> Iterator[Any]:
        if self._fault(False) is Fault.AWAY:
            raise StoreUnavailable(Fault.AWAY.value)
        with self._inner.read() as tx:
            yield tx


class Witness:
    """A transaction that remembers what was claimed in it: by one statement, or on SQLite by two."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self._found: list[Any] = []
        self.claimed: list[Live] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def rows(self, statement: Any, /, batch: Any = None, **params: Any) -> Any:
        found = self._tx.rows(statement, batch, **params)
        if statement in ("claim", "claim_of_known"):
            self._found = found
            if "worker" in params:
                self._remember(**params)
        return found

    def run(self, statement: Any, /, batch: Any = None, **params: Any) -> Any:
        done = self._tx.run(statement, batch, **params)
        if statement == "start":
            self._remember(**params)
        return done

    def _remember(self, worker: Any, now: Any, **_: Any) -> None:
        self.claimed += [rows.STARTED.of(row[:WIDTH], None, worker, now, None) for row in self._found]
