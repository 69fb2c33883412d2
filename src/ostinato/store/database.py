"""The common interface of the two databases: `open_database`, `Database`, `Tx`.

A transaction is `with db.write() as tx` (committed at the end, rolled back when an exception leaves it) or `with
db.read() as tx` (one snapshot). No connection is opened before the first transaction.

Parameters: a datetime becomes microseconds, a UUID an id of this database, a list a list; other values stay as they
are. Results are plain tuples: ids as UUID (PostgreSQL) or bytes (SQLite), for `adapt.to_uuid`; instants as
microseconds.

Errors of the drivers are translated only here. The database is unavailable, locked, too slow or asks to repeat
(deadlock) → `StoreUnavailable`; it refuses the values of a row → `RowRefused`, by a unique index → `Duplicate`;
anything else → `StoreError`. Only a `RowRefused` is caused by the row: all others may pass. A transaction in which a
statement has failed can only be rolled back, on both databases.
"""

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from ostinato.config.extras import need
from ostinato.core.errors import Invalid, InvalidSetting, RowRefused, StoreError
from ostinato.feature import Features, our_features
from ostinato.store.dialect import TABLES, DatabaseKind, Dialect, Statement

Row = tuple[Any, ...]
Batch = Sequence[Row]


class Shared(list[Row]):
    """A batch for several statements with the same columns: it is converted for the database once."""

    fit: Mapping[str, Any] | None = None


@cache
def _rendered(dialect: Dialect, text: str) -> Mapping[str, Statement]:
    """Render each statement once: all stores of a process share them."""
    return dialect.statements(text)


class Duplicate(RowRefused):
    """Refusal of a row by a unique index. `what` is the constraint (PostgreSQL) or its columns (SQLite)."""

    def __init__(self, what: str) -> None:
        super().__init__(f"There is one already: {what}.")
        self.what = what


class Tx(ABC):
    """An open transaction. `statement` is the name of a loaded statement, or a `Statement`."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = statements
        self._calls: list[Callable[[], None]] = []
        self._failed = False
        self.notifies = False
        self.touched: set[UUID] | None = None  # the jobs whose rows it changed, if a listener wants them

    def rows(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> list[Row]:
        """Return all rows of a statement."""
        found = self._find(statement, batch, params)
        return self._fetch(found, batch, params)

    def row(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> Row | None:
        """Return the first row, or None."""
        found = self.rows(statement, batch, **params)
        return found[0] if found else None

    def run(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> int:
        """Run a statement without RETURNING; return the number of rows it wrote."""
        found = self._find(statement, batch, params)
        return self._count(found, batch, params)

    def copy(self, into: Statement, rows: bytes) -> None:
        """Send rows as one piece, in PostgreSQL's binary form. Raise Duplicate if a unique index refuses one of
        them."""
        raise StoreError(f"{into.name} is for PostgreSQL.")

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this after the commit; never for a borrowed transaction, whose end is not seen here."""
        self._calls.append(call)

    def notify(self) -> None:
        """Notify the listeners with the commit of this transaction."""
        self.notifies = True

    def touch(self, job_ids: Iterable[UUID]) -> None:
        """Note jobs whose rows have changed."""
        if self.touched is not None:
            self.touched.update(job_ids)

    def committed(self) -> None:
        """Run the calls that waited for the commit; for the database only."""
        for call in self._calls:
            call()

    def refuse_if_failed(self) -> None:
        """Raise StoreError if a statement has failed, even if the error was caught; for the database only."""
        if self._failed:
            raise StoreError("A statement of this transaction has failed: it cannot be committed.")

    def _find(self, statement: str | Statement, batch: Batch | None, params: Mapping[str, Any]) -> Statement:
        found = statement if isinstance(statement, Statement) else self._statements.get(statement)
        if found is None:
            raise StoreError(f"There is no statement {statement}.")
        if len(params) != len(found.parameters) or not all(name in params for name in found.parameters):
            raise TypeError(f"{found.name} wants {sorted(found.parameters)}, got {sorted(params)}")
        if bool(found.columns) != (batch is not None):
            raise TypeError(f"{found.name} wants {'a' if found.columns else 'no'} batch")
        return found

    @abstractmethod
    def _fetch(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> list[Row]: ...

    @abstractmethod
    def _count(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> int: ...


class NotifyListener(Protocol):
    def close(self) -> None:
        """Stop listening; the callback is not called after this returns."""


class Database(ABC):
    """A database. Threads may share it; after a fork the child has connections of its own."""

    elsewhere: bool  # it is another process, so this one can work meanwhile
    name: str  # for people: the absolute path, or the URL without its password

    def __init__(self, dialect: Dialect, features: Features) -> None:
        self.dialect, self.features = replace(dialect, tables=TABLES | features.tables), features
        self.statements: dict[str, Statement] = {}
        self.on_change: Callable[[Collection[UUID]], None] | None = None  # gets the changed jobs after each commit
        self._reading = threading.local()  # its `connection`: the caller's, for the reads of this thread
        _all.add(self)

    def load(self, statements: Path | str) -> list[str]:
        """Load the named statements of a file (or text); return their names."""
        text = statements.read_text("utf-8") if isinstance(statements, Path) else statements
        loaded = _rendered(self.dialect, text)
        self.statements.update(loaded)
        return list(loaded)

    def observed(self, tx: Tx) -> None:
        """Report the changes of a transaction after its commit, if a listener wants them; for the database only."""
        listener = self.on_change
        if listener is not None:
            touched = tx.touched = set[UUID]()
            tx.after_commit(lambda: listener(touched) if touched else None)

    @abstractmethod
    def write(self, deadline: float | None = None) -> AbstractContextManager[Tx]:
        """Open a writing transaction. `deadline` in seconds, if not the default; `math.inf` for migrations."""

    def make_fit(self, statement: str, batch: Shared) -> None:  # noqa: B027  not abstract: most databases need nothing
        """Convert the batch of a statement now, before the transaction, while no other writer waits."""

    def alone(self) -> AbstractContextManager[Tx]:
        """Open a transaction for one writing statement, which commits by itself if that is cheaper."""
        return self.write()

    def fill(self) -> AbstractContextManager[Tx]:
        """Open a transaction for many rows that are not read soon: they need no place in memory."""
        return self.write()

    def read(self) -> AbstractContextManager[Tx]:
        """Open one consistent snapshot; writes are refused."""
        theirs = getattr(self._reading, "connection", None)
        return self.snapshot() if theirs is None else self.borrow(theirs)

    @contextmanager
    def reading_in(self, connection: object) -> Iterator[None]:
        """Let the reads of this thread see the open transaction of the caller's connection."""
        self._reading.connection = connection
        try:
            yield
        finally:
            self._reading.connection = None

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Tx]:
        """Open one consistent snapshot on a connection of our own."""

    @abstractmethod
    def borrow(self, connection: object) -> AbstractContextManager[Tx]:
        """Write inside the open transaction of a sqlite3, psycopg or SQLAlchemy connection or session.

        Nothing is committed. When an exception leaves the block, its writes are undone and the rest of the caller's
        transaction stays as it was.
        """

    @abstractmethod
    def now(self) -> datetime:
        """Return the time: the server's for PostgreSQL (asked each time), the host's for SQLite."""

    @abstractmethod
    def notify(self) -> None:
        """Notify the listeners now."""

    @abstractmethod
    def listen(self, on_notify: Callable[[], None]) -> NotifyListener:
        """Call `on_notify` from a thread after each notification, and when one may have been missed. It must be quick
        and not raise."""

    @abstractmethod
    def upkeep(self) -> int:
        """Do maintenance beside the writers that would otherwise delay them; return the pages written since, to set the
        pace."""

    @abstractmethod
    def close(self) -> None:
        """Close idle connections; a transaction under way ends first. The next transaction opens the database again."""

    @abstractmethod
    def start_over(self) -> None:
        """Give up the parent's connections and locks, in the child of a fork."""


_all: weakref.WeakSet[Database] = weakref.WeakSet()


def _forked() -> None:
    for database in list(_all):
        database.start_over()


os.register_at_fork(after_in_child=_forked)


class _Shuttable(Protocol):
    def shut(self) -> None:
        """Close the connection at once, so that a thread that waits for it gets an error."""


class Watchdog:
    """Thread that closes connections busy beyond their deadline. It sleeps until the earliest deadline."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: dict[_Shuttable, float] = {}
        self._alarm = float("inf")
        self._thread: threading.Thread | None = None

    def watch(self, session: _Shuttable, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            self._busy[session] = until
            if until < self._alarm:
                self._alarm = until
                self._wake()

    def leave(self, session: _Shuttable) -> None:
        with self._changed:
            self._busy.pop(session, None)

    def close(self) -> None:
        with self._changed:
            self._thread = None
            self._alarm = float("inf")
            self._changed.notify()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ostinato-watchdog", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no thread is free now: the next session tries again
                self.close()
        self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._thread is threading.current_thread():
                now = time.monotonic()
                for session in [session for session, until in self._busy.items() if until <= now]:
                    del self._busy[session]
                    session.shut()
                self._alarm = min(self._busy.values(), default=float("inf"))
                self._changed.wait(min(self._alarm - now, threading.TIMEOUT_MAX))


def open_database(
    url: str,
    *,
    schema: str = "ostinato",
    deadline: float = 30.0,
    durable: bool = True,
    max_connections: int = 10,
    resolve: Callable[[], Mapping[str, str]] = dict,
    features: Features | None = None,
) -> Database:
    """Open a database by its URL: `sqlite:///relative.db`, `sqlite:////abs/path.db`, `postgresql://user@host/name`.

    `deadline`: the longest wait of a transaction for the database, in seconds. `durable=False` skips the fsyncs of
    SQLite (for tests). `features`: those whose tables it has (default: ours). The others are for PostgreSQL: `resolve`
    gives the host of each new connection.
    """
    features = features or our_features()
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and separator:
        from ostinato.store.sqlite import SqliteDatabase

        return SqliteDatabase(_sqlite_path(rest), features, deadline=deadline, durable=durable)
    if scheme in ("postgresql", "postgres") and separator:
        need("postgres", "psycopg.pq", "A PostgreSQL URL")
        from ostinato.store.postgres import PostgresDatabase  # only here: psycopg takes a while to import

        dialect = Dialect(DatabaseKind.POSTGRES, schema)
        return PostgresDatabase(
            url, dialect, features, deadline=deadline, max_connections=max_connections, resolve=resolve
        )
    raise InvalidSetting(
        "The database URL cannot be used: write sqlite:///file.db, sqlite:////absolute/path/file.db or "
        "postgresql://user:password@host/database."
    )


def _sqlite_path(rest: str) -> Path:
    path = rest.removeprefix("/")
    if not path or ":memory:" in path or "mode=memory" in path:
        raise InvalidSetting("A SQLite database in memory would remember nothing: give it a file, sqlite:///file.db.")
    if not rest.startswith("/") or "?" in path:
        raise InvalidSetting("A SQLite URL is sqlite:///file.db or sqlite:////absolute/path/file.db, and no more.")
    return Path(path).absolute()


def driver_connection(connection: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy connection or session; return anything else unchanged."""
    modules = {cls.__module__ for cls in type(connection).__mro__}
    if any(module.startswith("sqlalchemy.ext.asyncio") for module in modules):
        raise Invalid("Hand over the synchronous side: `await session.run_sync(lambda s: …)`.")
    if not any(module.startswith("sqlalchemy.") for module in modules):
        return connection
    if callable(getattr(connection, "connection", None)):  # it is a session
        connection = connection.connection()
    if not hasattr(connection, "exec_driver_sql"):
        raise Invalid("Hand over a connection or a session of SQLAlchemy, not an engine.")
    if not connection.in_transaction():
        connection.exec_driver_sql("SELECT 1")  # SQLAlchemy must see a statement to begin its transaction
    return connection.connection.driver_connection
