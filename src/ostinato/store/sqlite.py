"""SQLite: a file, many readers, one writer at a time.

Readers have connections of their own and never wait (WAL). Writers of one process share one connection; writers of
several processes take the write lock (sqlite_file.py).

`together` writes a statement that inserts one row out for many rows, which saves a fifth of the work for each. It also
frees Python's lock for longer: each time a statement ends, another thread may keep the lock for 5 ms. With few rows per
statement, the thread that maps the next page of a source and the one that stores the last only wait for each other.
"""

import errno
import json
import os
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from ostinato.core.errors import (
    ForeignDatabase,
    Invalid,
    InvalidSetting,
    RowRefused,
    StoreError,
    StoreUnavailable,
)
from ostinato.feature import Features
from ostinato.store.database import (
    Batch,
    Database,
    Duplicate,
    NotifyListener,
    Row,
    Shared,
    Tx,
    driver_connection,
)
from ostinato.store.dialect import DatabaseKind, Dialect, Statement, leading_ids
from ostinato.store.notify import COMMIT_FOLLOWS, COMMITTED, FileListener, notify_all, socket_folder
from ostinato.store.rows import to_bytes, to_micros
from ostinato.store.sqlite_file import FILE_MODE, FileLock, SameFile
from ostinato.store.upkeep import LONGEST_LOG, CommitWatcher, Folding

AWAY: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR}
    | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT}
)
# Errors caused by the values of a row.
OF_A_ROW: Final = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH})
UNIQUE: Final = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})


def translated(error: sqlite3.Error, name: str) -> StoreError:
    """Return our error for an error of the driver."""
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else code & 0xFF
    if code in UNIQUE:
        return Duplicate(str(error).partition(": ")[2])
    if kind in OF_A_ROW or isinstance(error, sqlite3.DataError):
        return RowRefused(f"The database {name} refused a row: {error}.")
    if kind == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk of {name} is full: free some space, and work continues.")
    if kind in AWAY:
        return StoreUnavailable(f"The database {name} does not answer: {error}.")
    if kind == sqlite3.SQLITE_NOTADB:
        return ForeignDatabase(f"{name} is not a SQLite database: it is left as it is.")
    if kind == sqlite3.SQLITE_READONLY:
        return StoreError(f"{name} cannot be written: {error}.")
    return StoreError(f"The database {name} refused: {error}.")


OLDEST: Final = (3, 38, 0)

WIDE: Final = 5  # from this width on, binding the rows of a batch one by one is quicker
OF_WRITERS: Final = (
    "journal_mode = WAL",
    "foreign_keys = ON",
    "journal_size_limit = 67108864",
    f"wal_autocheckpoint = {LONGEST_LOG}",
)
OF_READERS: Final = ("query_only = ON",)  # they may still checkpoint the log
CACHE, SMALL_CACHE = -2000, -250  # kilobytes of pages in memory; the first is SQLite's default


class _SqliteTx(Tx):
    """A transaction on one connection."""

    def __init__(self, cursor: sqlite3.Cursor, statements: Mapping[str, Statement], name: str) -> None:
        super().__init__(statements)
        self._cursor = cursor
        self._name = name

    def _fetch(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> list[Row]:
        return self._execute(statement, batch, params).fetchall()

    def _count(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> int:
        before = self._cursor.connection.total_changes
        if batch is None or _is_narrow(statement):
            self._execute(statement, batch, params)
        else:
            self._execute_each(statement, batch, params)
        return self._cursor.connection.total_changes - before  # rowcount does not know `WITH … UPDATE`

    def _execute(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> sqlite3.Cursor:
        values = {name: _value(value) for name, value in params.items()}
        for name, kind in statement.lists.items():
            if kind == "uuid":
                ids = params[name]
                values[name] = b"".join(map(to_bytes, ids))
                values[f"{name}_places"] = f"[{','.join('0' * len(ids))}]"
        if batch is not None:
            values |= _fit(statement.columns, batch)
        try:
            return self._cursor.execute(statement.sql, values)
        except sqlite3.Error as error:
            self._failed = True
            raise translated(error, self._name) from error

    def _execute_each(self, statement: Statement, batch: Batch, params: Mapping[str, Any]) -> None:
        scalars = tuple(_value(params[name]) for name in statement.parameters)
        rows = list(zip(*map(_column, statement.columns, zip(*batch, strict=True)), strict=True))
        try:
            for sql, cells in together(statement.each, rows, scalars):
                self._cursor.executemany(sql, cells)
        except sqlite3.Error as error:
            self._failed = True
            raise translated(error, self._name) from error


def _is_narrow(statement: Statement) -> bool:
    """Return True if the batch may be sent as JSON, which has no bytes and may round numbers."""
    kinds = {kind for _, kind in statement.columns}
    return len(statement.used) < WIDE and not kinds & {"double", "bytes"}


def _value(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, list | tuple):
        return to_json(value)
    return value


def _fit(columns: Sequence[tuple[str, str]], batch: Batch) -> Mapping[str, Any]:
    if not isinstance(batch, Shared):
        return _as_json(columns, batch)
    batch.fit = batch.fit or _as_json(columns, batch)
    return batch.fit


def _as_json(columns: Sequence[tuple[str, str]], batch: Batch) -> dict[str, Any]:
    """Return a batch as one JSON value; leading ids go beside it, as one blob."""
    leading = leading_ids(columns)
    if not batch or not leading:
        return {"rows": to_json(batch), "rows_ids": b""}
    all_cells = list(zip(*batch, strict=True))
    ids, cells = all_cells[:leading], all_cells[leading:]
    for place, (_, kind) in enumerate(columns[leading:]):
        if kind == "instant":  # in the encoder, each would be a call back into Python
            cells[place] = tuple(cell and to_micros(cell) for cell in cells[place])
    rows = list(zip(*(repeat(0, len(batch)) for _ in ids), *cells, strict=True))
    return {
        "rows": to_json(rows),
        "rows_ids": b"".join(map(to_bytes, chain.from_iterable(zip(*ids, strict=True)))),
    }


def _column(column: tuple[str, str], cells: tuple[Any, ...]) -> Sequence[Any]:
    """Return the cells of one column of a batch as SQLite takes them."""
    match column[1]:
        case "uuid":
            return [None if cell is None else to_bytes(cell) for cell in cells]
        case "instant":
            return [None if cell is None else to_micros(cell) for cell in cells]
        case "text":
            return [cell if cell is None or type(cell) is str else str(cell) for cell in cells]
        case _:
            return cells


def _plain(value: object) -> Any:
    if isinstance(value, bytes | UUID):
        return to_bytes(value).hex()
    if isinstance(value, datetime):
        return to_micros(value)
    raise TypeError(f"{type(value).__name__} cannot stand in a batch")


to_json: Final[Callable[[Any], str]] = json.JSONEncoder(
    default=_plain, ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode


def _uuid(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


class SqliteDatabase(Database):
    elsewhere = False

    def __init__(self, file: Path, features: Features, *, deadline: float = 30.0, durable: bool = True) -> None:
        super().__init__(Dialect(DatabaseKind.SQLITE), features)
        if sqlite3.sqlite_version_info < OLDEST:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: Ostinato needs 3.38 or newer.")
        self.file = file
        self.name = str(file)
        self._deadline, self._durable = deadline, durable
        self._inherited: list[object] = []
        self._begin_with_nothing()

    def _begin_with_nothing(self) -> None:
        self._turn = FileLock(self.file)
        self._writer: sqlite3.Cursor | None = None
        self._readers: deque[sqlite3.Cursor] = deque()
        self.same_file = SameFile(self.file)
        self._folding = Folding(self)

    @contextmanager
    def write(self, deadline: float | None = None) -> Iterator[Tx]:
        self._refuse_a_stranger()
        with self._turn.held(self._deadline if deadline is None else deadline):
            if self._writer is None:
                self._writer = self._connect(writes=True)
            tx = _SqliteTx(self._writer, self.statements, self.name)
            self.observed(tx)
            with self._transaction(self._writer, "BEGIN IMMEDIATE", "COMMIT"):
                self.same_file.require()
                yield tx
                tx.refuse_if_failed()
        if tx.notifies:
            self.notify()
        tx.committed()

    def make_fit(self, statement: str, batch: Shared) -> None:
        batch.fit = _as_json(self.statements[statement].columns, batch)

    @contextmanager
    def fill(self) -> Iterator[Tx]:
        with self.write() as tx:
            cursor = cast(sqlite3.Cursor, self._writer)
            self.execute(cursor, f"PRAGMA cache_size = {SMALL_CACHE}")
            try:
                yield tx
            finally:
                with suppress(StoreError):
                    self.execute(cursor, f"PRAGMA cache_size = {CACHE}")

    @contextmanager
    def snapshot(self) -> Iterator[Tx]:
        cursor = self.reader()
        try:
            with self._transaction(cursor, "BEGIN", "ROLLBACK"):
                self.same_file.require()
                yield _SqliteTx(cursor, self.statements, self.name)
        except BaseException:
            self.same_file.part_with(cursor)
            raise
        self._readers.append(cursor)

    @contextmanager
    def _transaction(self, cursor: sqlite3.Cursor, begin: str, end: str) -> Iterator[None]:
        try:
            self.execute(cursor, begin)
            yield
            self.execute(cursor, end)
        except BaseException:
            if cursor.connection.in_transaction:
                self.execute(cursor, "ROLLBACK")
            raise

    def execute(self, cursor: sqlite3.Cursor, sql: str) -> list[Row]:
        try:
            return cursor.execute(sql).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self.name) from error

    def reader(self) -> sqlite3.Cursor:
        with suppress(IndexError):
            return self._readers.pop()
        self._refuse_a_stranger()
        cursor = self._connect(writes=False)
        if self.execute(cursor, "PRAGMA journal_mode") != [("wal",)]:
            with self.write():
                pass  # the first writer turns it on
        return cursor

    def _refuse_a_stranger(self) -> None:
        """Create the file if there is none; otherwise let SQLite check it before other files are put beside it.

        Only SQLite may open it. Closing any descriptor of a file drops all locks that this process holds on it, those
        of the caller's own connections too. The next process to close would then take itself for the last one, and
        delete the log with our commits in it.
        """
        if self.same_file.noted:
            return
        if os.path.isdir(self.file):  # `Path.is_dir` raises for a path that is too long
            raise InvalidSetting(f"{self.file} is a folder: name a file in it.")
        try:
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
        except FileExistsError:
            self._let_sqlite_look()
        except FileNotFoundError:
            raise InvalidSetting(f"The folder {self.file.parent} does not exist: make it first.") from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidSetting("The path of the database file is too long: shorten it.") from None
            raise StoreError(f"The database {self.file} cannot be opened: {error.strerror}.") from error
        self.same_file.note()

    def _let_sqlite_look(self) -> None:
        if not os.access(self.file, os.R_OK):
            raise StoreError(f"The database {self.file} cannot be opened: Permission denied.")
        cursor = self._connect(writes=False)
        try:
            self.execute(cursor, "PRAGMA schema_version")
        finally:
            self.same_file.part_with(cursor)

    def _connect(self, *, writes: bool) -> sqlite3.Cursor:
        """Open a connection that holds the log: the first pragma reads the file."""
        with self.same_file.lock:
            self.same_file.require_for_new()
            return self._prepared(self._driver_connection().cursor(), writes=writes)

    def _driver_connection(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.file,
                timeout=self._deadline,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
        except sqlite3.Error as error:
            raise translated(error, self.name) from error
        connection.create_function("ostinato_uuid", 1, _uuid, deterministic=True)
        return connection

    def _prepared(self, cursor: sqlite3.Cursor, *, writes: bool) -> sqlite3.Cursor:
        self.same_file.connected.add(cursor)
        durably = f"synchronous = {'FULL' if self._durable else 'OFF'}"
        try:
            for pragma in (durably, "mmap_size = 0", *(OF_WRITERS if writes else OF_READERS)):
                self.execute(cursor, f"PRAGMA {pragma}")
        except StoreError:
            self.same_file.part_with(cursor)
            raise
        return cursor

    @contextmanager
    def borrow(self, connection: object) -> Iterator[Tx]:
        theirs = driver_connection(connection)
        if not isinstance(theirs, sqlite3.Connection):
            raise Invalid(f"A connection of {type(theirs).__module__} cannot write to the SQLite file {self.name}.")
        theirs.create_function("ostinato_uuid", 1, _uuid, deterministic=True)
        cursor = theirs.cursor()
        cursor.row_factory = None
        self.same_file.require_for_new()
        self._refuse_another_file(cursor)
        self._begin_for(theirs, cursor)
        tx = _SqliteTx(cursor, self.statements, self.name)
        self.execute(cursor, "SAVEPOINT ostinato")
        try:
            yield tx
            tx.refuse_if_failed()
        except BaseException:
            if theirs.in_transaction:  # a full disk always ends the transaction
                self.execute(cursor, "ROLLBACK TO ostinato")
                self.execute(cursor, "RELEASE ostinato")
            raise
        self.execute(cursor, "RELEASE ostinato")
        if tx.notifies:
            notify_all(socket_folder(self.file), COMMIT_FOLLOWS)

    def _refuse_another_file(self, cursor: sqlite3.Cursor) -> None:
        main = next(file for _, name, file in self.execute(cursor, "PRAGMA database_list") if name == "main")
        if not main or not self.file.exists() or not os.path.samefile(main, self.file):
            raise Invalid(f"That connection is on {main or 'a database in memory'}, not on {self.name}.")

    def _begin_for(self, theirs: sqlite3.Connection, cursor: sqlite3.Cursor) -> None:
        """Begin the caller's transaction: sqlite3 begins only at the first INSERT, and our write may come before it."""
        if theirs.in_transaction:
            return
        if theirs.isolation_level is None or getattr(theirs, "autocommit", False) is True:
            raise Invalid("That connection has no open transaction: BEGIN first.")
        with self._turn.held(self._deadline):
            self.execute(cursor, "BEGIN IMMEDIATE")

    def now(self) -> datetime:
        return datetime.now(UTC)

    def notify(self) -> None:
        notify_all(socket_folder(self.file), COMMITTED)

    def listen(self, on_notify: Callable[[], None]) -> NotifyListener:
        return FileListener(self.file, CommitWatcher(self), on_notify)

    def upkeep(self) -> int:
        return self._folding.fold()

    def close(self) -> None:
        self._folding.close()
        if self._writer is not None:
            with self._turn.held(self._deadline):
                self.same_file.part_with(self._writer)
                self._writer = None
        while self._readers:
            self.same_file.part_with(self._readers.pop())
        self._turn.close()
        self.same_file.forget()

    def start_over(self) -> None:
        self._turn.close()
        self._inherited += [self._folding, *self.same_file.connected]  # closing them could harm the parent
        self._begin_with_nothing()


SIZES: Final = (250, 25)
MOST_CELLS: Final = 30_000  # per statement; SQLite accepts 32,766 parameters
VALUES: Final = re.compile(r"VALUES (\([^()]*\))")
PLACE: Final = re.compile(r"\?(\d+)")

Cells = tuple[Any, ...]


def together(each: str, rows: Sequence[Cells], scalars: Cells) -> Iterator[tuple[str, Iterator[Cells]]]:
    """Yield statements with their parameters, for as many rows at once as possible; the last rows one by one."""
    done, width = 0, len(rows[0]) if rows else 0
    for size in SIZES:
        several = _several(each, width, size) if len(rows) - done >= size else ""
        until = done + (len(rows) - done) // size * size if several else done
        if several:
            yield several, _groups(rows[done:until], size, scalars)
        done = until
    if done < len(rows):
        yield each, ((*row, *scalars) for row in rows[done:])


def _groups(rows: Sequence[Cells], size: int, scalars: Cells) -> Iterator[Cells]:
    return ((*chain.from_iterable(rows[at : at + size]), *scalars) for at in range(0, len(rows), size))


@lru_cache(1000)
def _several(each: str, width: int, size: int) -> str:
    """Return the statement for several rows at once; "" if it is not possible."""
    found = VALUES.search(each)
    if found is None or size * width > MOST_CELLS:
        return ""

    def place(row: int, number: int) -> int:
        return row * width + number if number <= width else (size - 1) * width + number

    rows = (PLACE.sub(lambda at: f"?{place(row, int(at[1]))}", found[1]) for row in range(size))  # noqa: B023
    return f"{each[: found.start()]}VALUES {', '.join(rows)}{each[found.end() :]}"
