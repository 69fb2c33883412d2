"""The meeting point of the two databases: `open_database`, `Database`, `Tx`.

A transaction is `with db.write() as tx` (committed at the end, rolled back when an exception leaves it) or
`with db.read() as tx` (one snapshot). Nothing is opened before the first transaction.

What goes in: a datetime becomes microseconds, a UUID an id of this database, a list a list; the rest as it is.
What comes out: plain tuples; ids as UUID (PostgreSQL) or bytes (SQLite), for `cells.to_uuid`; instants as
microseconds.

What a driver raises is translated here and nowhere else: the database is away, locked, too slow or asks to
repeat (deadlock) → `StoreUnavailable`; it refuses the values of a row → `RowRefused`, a unique index → `Duplicate`;
anything else → `StoreError`. Only a `RowRefused` is the row's fault: all else may pass.
A transaction in which a statement has failed can only be rolled back, on both databases.
"""

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from ostinato.core.errors import Invalid, InvalidSetting, RowRefused, StoreError
from ostinato.store.dialect import DatabaseKind, Dialect, Statement

Row = tuple[Any, ...]
Batch = Sequence[Row]


class Shared(list[Row]):
    """A batch for several statements with the same columns: it is made fit for the database once."""

    fit: Mapping[str, Any] | None = None


@cache
def _rendered(dialect: Dialect, text: str) -> Mapping[str, Statement]:
    """Every store of a process has the same statements: they are rendered once."""
    return dialect.statements(text)


class Duplicate(RowRefused):
    """A unique index refused a row. `what` is the constraint (PostgreSQL) or its columns (SQLite)."""

    def __init__(self, what: str) -> None:
        super().__init__(f"There is one already: {what}.")
        self.what = what


class Tx(ABC):
    """One open transaction. `statement` is the name of a loaded statement, or a `Statement`."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = statements
        self._calls: list[Callable[[], None]] = []
        self._failed = False
        self.rings = False
        self.touched: set[UUID] | None = None  # the jobs whose rows it changed, where somebody asks for them

    def rows(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> list[Row]:
        """All rows of a statement."""
        found = self._find(statement, batch, params)
        return self._fetch(found, batch, params)

    def row(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> Row | None:
        """The first row, or None."""
        found = self.rows(statement, batch, **params)
        return found[0] if found else None

    def run(self, statement: str | Statement, /, batch: Batch | None = None, **params: Any) -> int:
        """Run a statement without RETURNING; return the number of rows it wrote."""
        found = self._find(statement, batch, params)
        return self._count(found, batch, params)

    def copy(self, into: Statement, rows: bytes) -> None:
        """Send rows in one piece, in PostgreSQL's binary form. Duplicate if a unique index refuses one of them."""
        raise StoreError(f"{into.name} is for PostgreSQL.")

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call this once the transaction is committed. Never called for a borrowed one: its end is not ours."""
        self._calls.append(call)

    def ring(self) -> None:
        """Ring the doorbell with the commit of this transaction."""
        self.rings = True

    def touch(self, job_ids: Iterable[UUID]) -> None:
        """Note jobs whose rows have changed."""
        if self.touched is not None:
            self.touched.update(job_ids)

    def committed(self) -> None:
        """For the database: what waited for the commit."""
        for call in self._calls:
            call()

    def refuse_if_failed(self) -> None:
        """For the database: nothing is committed after an error that somebody swallowed."""
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
    """A place to keep rows. Threads may share it; after a fork the child has connections of its own."""

    elsewhere: bool  # it works in another process, and this one can do something else meanwhile
    name: str  # for people: the absolute path, or the URL without its password

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.statements: dict[str, Statement] = {}
        self.on_change: Callable[[Collection[UUID]], None] | None = None  # told of jobs after each commit
        _all.add(self)

    def load(self, statements: Path | str) -> None:
        """Make the statements of a file (or text) known by name."""
        text = statements.read_text("utf-8") if isinstance(statements, Path) else statements
        self.statements.update(_rendered(self.dialect, text))

    def observed(self, tx: Tx) -> None:
        """For the database: what a transaction changes is told afterwards, if somebody listens."""
        listener = self.on_change
        if listener is not None:
            touched = tx.touched = set[UUID]()
            tx.after_commit(lambda: listener(touched) if touched else None)

    @abstractmethod
    def write(self, deadline: float | None = None) -> AbstractContextManager[Tx]:
        """One writing transaction. `deadline` in seconds, if not the usual one; `math.inf` for migrations."""

    def make_fit(self, statement: str, batch: Shared) -> None:  # noqa: B027  most have nothing to do
        """Do now what a transaction would do with the batch of a statement, where others wait for its end."""

    def alone(self) -> AbstractContextManager[Tx]:
        """For one writing statement that needs no transaction around it, where that saves something."""
        return self.write()

    def fill(self) -> AbstractContextManager[Tx]:
        """For many rows that nobody reads again soon: they need not stay in memory."""
        return self.write()

    @abstractmethod
    def read(self) -> AbstractContextManager[Tx]:
        """One consistent snapshot; writes are refused."""

    @abstractmethod
    def borrow(self, connection: object) -> AbstractContextManager[Tx]:
        """Write inside the open transaction of a sqlite3, psycopg or SQLAlchemy connection or session.

        Nothing is committed. When an exception leaves the block, what was written in it is undone and the rest
        of the caller's transaction is as it was.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The one clock: the server's for PostgreSQL (asked each time), the host's for SQLite."""

    @abstractmethod
    def ring(self) -> None:
        """Ring the doorbell now."""

    @abstractmethod
    def listen(self, on_ring: Callable[[], None]) -> NotifyListener:
        """Call `on_ring` from a thread whenever somebody rang, or may have; it must be quick and not raise."""

    @abstractmethod
    def upkeep(self) -> int:
        """Do beside the writers what would hold them up; for the pace, how many pages they have written since."""

    @abstractmethod
    def close(self) -> None:
        """Close what is idle; a transaction under way ends first. The next one would open it again."""

    @abstractmethod
    def start_over(self) -> None:
        """After a fork, in the child: leave the parent's connections alone and forget its locks."""


_all: weakref.WeakSet[Database] = weakref.WeakSet()


def _forked() -> None:
    for database in list(_all):
        database.start_over()


os.register_at_fork(after_in_child=_forked)


class Shuttable(Protocol):
    def shut(self) -> None:
        """Let whoever waits on this find it broken, at once."""


class Watchdog:
    """Shuts what has been busy past its deadline. Its thread sleeps until the earliest of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: dict[Shuttable, float] = {}
        self._alarm = float("inf")
        self._thread: threading.Thread | None = None

    def watch(self, session: Shuttable, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._changed:
            self._busy[session] = until
            if until < self._alarm:
                self._alarm = until
                self._wake()

    def leave(self, session: Shuttable) -> None:
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
            except RuntimeError:  # no thread now: the next session tries again
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
) -> Database:
    """A database by its URL: `sqlite:///relative.db`, `sqlite:////abs/path.db`, `postgresql://user@host/name`.

    `deadline`: the longest a transaction waits for the database, in seconds. `durable=False` skips the fsyncs
    of SQLite (for tests). The others are for PostgreSQL: `resolve` gives the host of each new connection.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and separator:
        from ostinato.store.sqlite import SqliteDatabase

        return SqliteDatabase(_sqlite_path(rest), deadline=deadline, durable=durable)
    if scheme in ("postgresql", "postgres") and separator:
        from ostinato.store.postgres import PostgresDatabase  # psycopg takes a while to import

        dialect = Dialect(DatabaseKind.POSTGRES, schema)
        return PostgresDatabase(
            url, dialect, deadline=deadline, max_connections=max_connections, resolve=resolve
        )
    raise InvalidSetting(
        "The database URL cannot be used: write sqlite:///file.db, sqlite:////absolute/path/file.db or "
        "postgresql://user:password@host/database."
    )


def _sqlite_path(rest: str) -> Path:
    path = rest.removeprefix("/")
    if not path or ":memory:" in path or "mode=memory" in path:
        raise InvalidSetting(
            "A SQLite database in memory would remember nothing: give it a file, sqlite:///file.db."
        )
    if not rest.startswith("/") or "?" in path:
        raise InvalidSetting(
            "A SQLite URL is sqlite:///file.db or sqlite:////absolute/path/file.db, and no more."
        )
    return Path(path).absolute()


def driver_connection(connection: Any) -> Any:
    """The driver's connection under a SQLAlchemy connection or session; anything else is returned as it is."""
    modules = {cls.__module__ for cls in type(connection).__mro__}
    if any(module.startswith("sqlalchemy.ext.asyncio") for module in modules):
        raise Invalid("Hand over the synchronous side: `await session.run_sync(lambda s: …)`.")
    if not any(module.startswith("sqlalchemy.") for module in modules):
        return connection
    if callable(getattr(connection, "connection", None)):  # a session
        connection = connection.connection()
    if not hasattr(connection, "exec_driver_sql"):
        raise Invalid("Hand over a connection or a session of SQLAlchemy, not an engine.")
    if not connection.in_transaction():
        connection.exec_driver_sql("SELECT 1")  # what goes past SQLAlchemy would not make it begin
    return connection.connection.driver_connection
