"""The meeting point of the two databases: `open_database`, `Database`, `Tx`.

A transaction is `with db.write() as tx` (committed at the end, rolled back when an exception leaves it) or
`with db.read() as tx` (one snapshot). Nothing is opened before the first transaction.

What goes in: a datetime becomes microseconds, a UUID an id of this database, a list a list; the rest as it is.
What comes out: plain tuples; ids as UUID (PostgreSQL) or bytes (SQLite), see `dialect.to_uuid`; instants as microseconds.

What a driver raises is translated here and nowhere else: the database is away, locked, too slow, or asks to repeat
(deadlock) → `StoreUnavailable`; a unique index refused a row → `Duplicate`; anything else → `StoreError`. After an
error in a transaction it can only be rolled back, on both databases.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from ostinato.core.errors import StoreError
from ostinato.store.dialect import Dialect, Statement

type_Row = tuple[Any, ...]


class Duplicate(StoreError):
    """A unique index refused a row. `what` is the constraint (PostgreSQL) or its columns (SQLite)."""

    what: str


class Tx(ABC):
    """One open transaction. `statement` is the name of a loaded statement, or a `Statement`."""

    def rows(
        self, statement: str | Statement, /, batch: Sequence[tuple[Any, ...]] | None = None, **params: Any
    ) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        raise NotImplementedError

    def row(
        self, statement: str | Statement, /, batch: Sequence[tuple[Any, ...]] | None = None, **params: Any
    ) -> tuple[Any, ...] | None:
        """The first row, or None."""
        raise NotImplementedError

    def run(self, statement: str | Statement, /, batch: Sequence[tuple[Any, ...]] | None = None, **params: Any) -> int:
        """How many rows a statement without RETURNING wrote."""
        raise NotImplementedError

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this once the transaction is committed (never for a borrowed one: its end is not ours to see)."""
        raise NotImplementedError

    def ring(self) -> None:
        """Ring the doorbell with the commit of this transaction."""
        raise NotImplementedError


class Listener(Protocol):
    def close(self) -> None:
        """Stop listening; the callback is not called after this returns."""


class Database(ABC):
    """A place to keep rows. Safe to share between threads, and to use after a fork (with connections of its own)."""

    dialect: Dialect
    name: str  # for people: the absolute path, or the URL without its password

    def load(self, statements: Path | str) -> None:
        """Make the statements of a file (or text) known by name."""
        raise NotImplementedError

    @abstractmethod
    def write(self, deadline: float | None = None) -> AbstractContextManager[Tx]:
        """One writing transaction. `deadline` in seconds instead of the usual; `math.inf` for migrations."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Tx]:
        """One consistent snapshot; writes are refused."""

    @abstractmethod
    def borrow(self, connection: object) -> AbstractContextManager[Tx]:
        """Write inside the open transaction of a sqlite3, psycopg or SQLAlchemy connection or session.

        Nothing is committed. When an exception leaves the block, what was written in it is undone and the rest of the
        caller's transaction is as it was.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The one clock: the server's for PostgreSQL (asked each time), the host's for SQLite."""

    @abstractmethod
    def ring(self) -> None:
        """Ring the doorbell now."""

    @abstractmethod
    def listen(self, on_ring: Callable[[], None]) -> Listener:
        """Call `on_ring` from a thread whenever somebody rang, or may have. It must be quick and must not raise."""

    @abstractmethod
    def close(self) -> None:
        """Close what is idle; a transaction under way ends first."""


def open_database(
    url: str,
    *,
    schema: str = "ostinato",
    deadline: float = 30.0,
    durable: bool = True,
    max_connections: int = 10,
) -> Database:
    """A database by its URL: `sqlite:///relative.db`, `sqlite:////abs/path.db`, `postgresql://user@host/name`.

    `deadline`: the longest a transaction waits for the database, in seconds. `durable=False` skips the fsyncs of
    SQLite (tests). `schema` and `max_connections` are for PostgreSQL.
    """
    raise NotImplementedError
