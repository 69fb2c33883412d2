"""Backup of the whole database while it is in use, and restore.

A backup is a SQLite file, whichever database it was taken from. It can be read, used (`--database
sqlite:///backup.db`), and restored into either database. It shows one moment: SQLite copies the pages of one snapshot,
PostgreSQL the rows of one (REPEATABLE READ). It blocks no other transaction.

The rows need no conversion: both databases have the same columns, ids as 16 bytes, instants as microseconds, JSON as
text.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ostinato.core.errors import Conflict, ForeignDatabase, Invalid, NotFound, StoreError
from ostinato.feature import Features
from ostinato.store import migrate
from ostinato.store.database import Database, Row, Tx
from ostinato.store.dialect import DatabaseKind, Dialect, Statement
from ostinato.store.rows import to_uuid
from ostinato.store.sqlite import SqliteDatabase, translated

Progress = Callable[[int, int], None]  # units done, units in total

PAGES: Final = 2000  # of SQLite, per step
ROWS: Final = 5000
LIFETIME: Final = 7 * 86400.0  # seconds; a copy may take long, and its snapshot must live as long
PRIVATE: Final = 0o600
USED: Final = ("jobs", "executions", "events")  # a database with rows in one of these is in use
TYPES: Final = {
    "BLOB": "uuid",
    "INTEGER": "bigint",
    "REAL": "double",
    "TEXT": "text",
}  # types of SQLite, by our type names

OUR_TABLES: Final = (  # without the index of words: it is rebuilt when its rows are inserted
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ostinato\\_%' ESCAPE '\\' "
    "AND name NOT LIKE 'ostinato\\_page\\_words%' ESCAPE '\\'"
)
COLUMNS: Final = "SELECT name, type, pk FROM pragma_table_info(:table) ORDER BY cid"


def backup(source: Database, file: Path, progress: Progress) -> None:
    """Copy the database into a new SQLite file; the file appears only when it is complete."""
    if file.exists():
        raise Conflict(f"{file} exists already: choose another name, or move it away.")
    there = _versions(source)
    part = file.with_name(file.name + ".part")
    try:
        _make(part)
        if isinstance(source, SqliteDatabase):
            _copy_pages(source, part, progress)
        else:
            _copy_rows_to_file(source, there, part, progress)
        _stand_alone(part)
        _flush(part)
        part.rename(file)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        _remove(part)


def restore(file: Path, target: Database, progress: Progress) -> None:
    """Restore a backup into an empty database, in one transaction."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.")
    with _opened(file, target.features) as source:
        migrate.upgrade(target)
        origin = migrate.identity_of(source)
        with source.read() as before, target.write(LIFETIME) as after:
            tables, into = _tables(before), _Side(target, after)
            _refuse_if_used(into, tables)
            _copy_rows(_Side(source, before), into, tables, progress)
            migrate.write_identity(target, after, replace(origin, generation=migrate.new_name()))
            after.notify()


def _versions(source: Database) -> Mapping[str, int]:
    """Return the versions of the schema. A backup is taken before an upgrade, so it does not upgrade."""
    there, latest = migrate.versions(source), migrate.latest_versions(source.features)
    if not there:
        raise NotFound(f"{source.name} has no tables of Ostinato to back up.")
    if missing := migrate.missing_features(there, source.features):
        raise ForeignDatabase(
            f"{source.name} has tables of the features {', '.join(missing)}, which this process lacks: "
            "name them in OSTINATO_FEATURES, so that the backup has them."
        )
    if any(version > latest.get(owner, 0) for owner, version in there.items()):
        raise ForeignDatabase(f"{source.name} is at {migrate.written(there)}: use a newer Ostinato.")
    return there


def _make(part: Path) -> None:
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    except FileExistsError:
        raise Conflict(
            f"{part} exists already: another backup is under way, or was interrupted; in that case remove the file."
        ) from None
    except FileNotFoundError:
        raise Invalid(f"The folder {part.parent} does not exist: make it first.") from None


def _copy_pages(source: SqliteDatabase, part: Path, progress: Progress) -> None:
    """Copy pages from one snapshot. While it is held, writes of others do not make SQLite start again."""
    cursor = source.reader()
    try:
        source.execute(cursor, "BEGIN")
        source.execute(cursor, "SELECT count(*) FROM sqlite_master")
        with closing(sqlite3.connect(part)) as copy:
            cursor.connection.backup(copy, pages=PAGES, progress=lambda _, left, total: progress(total - left, total))
    except sqlite3.Error as error:
        raise translated(error, str(part)) from error
    finally:
        source.same_file.part_with(cursor)


def _copy_rows_to_file(source: Database, there: Mapping[str, int], part: Path, progress: Progress) -> None:
    with closing(SqliteDatabase(part, source.features, durable=False)) as copy:
        migrate.upgrade(copy, until=there)
        origin = migrate.identity_of(source)
        with source.read() as before, copy.write(LIFETIME) as after:
            _copy_rows(_Side(source, before), _Side(copy, after), _tables(after), progress)
            if origin.database_id:  # otherwise it is of an older version
                migrate.write_identity(copy, after, origin)


def _stand_alone(part: Path) -> None:
    """Make it one file that can be read from anywhere, without a log beside it."""
    with closing(sqlite3.connect(part)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")


def _flush(part: Path) -> None:
    """Write the file to disk before it gets its name."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(part: Path) -> None:
    for beside in ("", "-wal", "-shm", "-journal", ".lock"):
        with suppress(FileNotFoundError):
            part.with_name(part.name + beside).unlink()


# -- rows


@dataclass(frozen=True, slots=True)
class _Table:
    """One of our tables: its name without prefix, and its columns by our type names."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self.columns)


def _tables(tx: Tx) -> list[_Table]:
    """List our tables as a SQLite database knows them."""
    statement = Dialect(DatabaseKind.SQLITE).statement
    names = sorted(name for (name,) in tx.rows(statement(OUR_TABLES)))
    return [_table(name, tx.rows(statement(COLUMNS), table=name)) for name in names]


def _table(name: str, columns: list[Row]) -> _Table:
    key = sorted((place, column) for column, _, place in columns if place)
    return _Table(
        name.removeprefix("ostinato_"),
        tuple((column, TYPES[kind]) for column, kind, _ in columns),
        tuple(column for _, column in key),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a copy: a database and its transaction."""

    database: Database
    tx: Tx

    def table(self, table: _Table) -> str:
        return self.database.dialect.table(table.name)

    def statement(self, text: str) -> Statement:
        return self.database.dialect.statement(text)


def _copy_rows(source: _Side, target: _Side, tables: list[_Table], progress: Progress) -> None:
    total, done = sum(_count(source, table) for table in tables), 0
    for table in tables:
        insert = target.statement(_insert(target, table))
        for rows in _pages(source, table):
            target.tx.run(insert, [_portable(table, row) for row in rows])
            done += len(rows)
            progress(done, total)


def _count(side: _Side, table: _Table) -> int:
    return int(side.tx.rows(side.statement(f"SELECT count(*) FROM {side.table(table)}"))[0][0])


def _insert(target: _Side, table: _Table) -> str:
    """Return the INSERT of a table; rows that exist already (the version of the schema) stay."""
    columns = ", ".join(f"{name} {kind}" for name, kind in table.columns)
    values = ", ".join(f"u.{name}" for name, _ in table.columns)
    return (
        f"INSERT INTO {target.table(table)} ({table.names}) "
        f"SELECT {values} FROM {{rows: {columns}}} WHERE true ON CONFLICT ({', '.join(table.key)}) DO NOTHING"
    )


def _pages(source: _Side, table: _Table) -> Iterator[list[Row]]:
    """Yield all rows in the order of their key."""
    kinds, key = dict(table.columns), ", ".join(table.key)
    last = ", ".join(f"CAST(:{name} AS {{{_castable(kinds[name])}}})" for name in table.key)
    begin, end = f"SELECT {table.names} FROM {source.table(table)}", f"ORDER BY {key} LIMIT {ROWS}"
    following = source.statement(f"{begin} WHERE ({key}) > ({last}) {end}")
    rows = source.tx.rows(source.statement(f"{begin} {end}"))
    while rows:
        yield rows
        newest = dict(zip(kinds, _portable(table, rows[-1]), strict=True))
        rows = source.tx.rows(following, **{name: newest[name] for name in table.key})


def _castable(kind: str) -> str:
    return "json" if kind == "text" else kind  # the same type, without its collation


def _portable(table: _Table, row: Row) -> tuple[Any, ...]:
    return tuple(
        to_uuid(cell) if kind == "uuid" and cell is not None else cell
        for cell, (_, kind) in zip(row, table.columns, strict=True)
    )


def _refuse_if_used(target: _Side, tables: list[_Table]) -> None:
    for table in tables:
        if table.name in USED and _count(target, table):
            raise Conflict(f"{target.database.name} is in use already: restore into one that is empty.")


@contextmanager
def _opened(file: Path, features: Features) -> Iterator[SqliteDatabase]:
    """Open a copy of the backup, upgraded if it is older than this program; the file itself stays unchanged."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "backup.db"
        try:
            original = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
            with closing(original), closing(sqlite3.connect(copy)) as pages:
                original.backup(pages)
        except sqlite3.Error as error:
            raise translated(error, str(file)) from error
        with closing(SqliteDatabase(copy, features, durable=False)) as database:
            if migrate.schema_version(database) == 0:
                raise Invalid(f"{file} is not a backup of Ostinato.")
            migrate.upgrade(database)
            yield database
