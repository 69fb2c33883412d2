"""The records of sources, in tables of the users: the one place that writes to them.

A page of records is one transaction, together with the check of the fence and the checkpoint of its run: a worker
that lost its lease writes nothing, and a page is there whole or not at all. Rows that are there already are left as
they are (`ON CONFLICT DO NOTHING`): in a table that we made by the hash of their unique tuple, in a table of the user
by whatever unique constraints it has.

Where a table is in another database one transaction is impossible: there the fence is checked before and after, and
a page that is stored twice is the same rows.

Statements are made here because their names are the users'; each name was checked (`core/tables.py`) and is quoted.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from ostinato.config import Secret
from ostinato.core.errors import Invalid, LeaseLost, StoreError, StoreUnavailable
from ostinato.core.tables import (
    CREATED_AT,
    HASH,
    ID,
    SOURCE_NAME,
    Cell,
    Column,
    ColumnType,
    Row,
    TableState,
    Target,
    check_new_table,
    check_table_name,
    missing_columns,
)
from ostinato.store.database import Database, Tx, open_database
from ostinato.store.dialect import Dialect, Kind, Statement

QUERIES: Final = Path(__file__).parent / "queries" / "records.sql"
REMEMBERED: Final = 500  # tables whose statement is kept
OTHERS: Final = 20  # other databases that are kept open
CONNECTIONS: Final = 5  # to each of them
TYPES: Final = {
    Kind.POSTGRES: {
        ColumnType.TEXT: "text", ColumnType.INTEGER: "bigint", ColumnType.NUMBER: "double precision",
        ColumnType.BOOLEAN: "boolean", ColumnType.TIMESTAMP: "timestamptz", ColumnType.DATE: "date",
        ColumnType.JSON: "jsonb",
    },
    Kind.SQLITE: {
        ColumnType.TEXT: "TEXT", ColumnType.INTEGER: "INTEGER", ColumnType.NUMBER: "REAL",
        ColumnType.BOOLEAN: "INTEGER", ColumnType.TIMESTAMP: "TEXT", ColumnType.DATE: "TEXT", ColumnType.JSON: "TEXT",
    },
}  # fmt: skip
SENT_AS: Final = {ColumnType.INTEGER: "bigint", ColumnType.NUMBER: "double", ColumnType.BOOLEAN: "bigint"}
A_TEXT: Final = "S"  # PostgreSQL's category of types that hold text


@dataclass(frozen=True, slots=True)
class Found:
    """A column that a table has."""

    name: str
    type: str = ""
    category: str = ""
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A table by its quoted name, and what it has."""

    name: str
    columns: tuple[Found, ...]

    @property
    def ours(self) -> bool:
        return any(column.name == HASH for column in self.columns)

    def has(self, name: str) -> bool:
        return self.find(name) is not None

    def find(self, name: str) -> Found | None:
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Hold:
    """Whose page it is: an execution, by the fence of its run."""

    execution_id: UUID
    fence: int
    checkpoint: str


class Records:
    """Makes, fills and looks at the tables that sources write to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._others: OrderedDict[str, Database] = OrderedDict()
        self._inserts: OrderedDict[Target, tuple[Statement, bool]] = OrderedDict()
        self._lock = threading.Lock()

    # -- what is there

    def look(self, target: Target) -> TableState:
        """What a target finds; Invalid if it cannot be written to. Changes nothing."""
        with self._reading(target) as (_, place):
            return _state(target, place)

    def greatest(self, target: Target, column: Column) -> Cell:
        """The greatest value of a column that a source has stored."""
        with self._reading(target) as (tx, place):
            if not place.has(column.name) or not place.has(SOURCE_NAME):
                return None
            cast = "::text" if self._is_postgres(target) else ""
            sql = f"SELECT max({quoted(column.name)}){cast} FROM {place.name} WHERE {SOURCE_NAME} = :source"
            (found,) = tx.row(self._statement(target, sql), source=target.source) or (None,)
        greatest: Cell = found
        if isinstance(greatest, str) and column.type in (ColumnType.INTEGER, ColumnType.NUMBER):
            return int(greatest) if column.type is ColumnType.INTEGER else float(greatest)
        return greatest

    def newest(self, target: Target, limit: int) -> list[dict[str, Any]]:
        """The rows of a source, the newest first, by column; none while there is no table."""
        with self._reading(target) as (tx, place):
            if not place.has(SOURCE_NAME):
                return []
            by = next((name for name in (ID, CREATED_AT) if place.has(name)), None)
            order = f"ORDER BY t.{quoted(by)} DESC" if by else ""
            where = f"FROM {place.name} t WHERE t.{SOURCE_NAME} = :source {order} LIMIT :limit"
            if self._is_postgres(target):
                found = tx.rows(
                    self._statement(target, f"SELECT row_to_json(t)::text {where}"),
                    source=target.source, limit=limit,
                )  # fmt: skip
                return [json.loads(text) for (text,) in found]
            names = [column.name for column in place.columns]
            shown = ", ".join(f"t.{quoted(name)}" for name in names)
            rows = tx.rows(
                self._statement(target, f"SELECT {shown} {where}"), source=target.source, limit=limit
            )
        return [dict(zip(names, map(_shown, row), strict=True)) for row in rows]

    # -- writing

    def prepare(self, target: Target) -> TableState:
        """Make the table if it is missing, and add to a table of ours what it lacks."""
        for last in (False, True):  # somebody else may be making the same
            try:
                return self._prepare(target)
            except StoreUnavailable:
                raise
            except StoreError:
                if last:
                    raise
        raise AssertionError

    def _prepare(self, target: Target) -> TableState:
        with self._writing(target) as (tx, place):
            state = _state(target, place)
            kinds = TYPES[self._of(target).dialect.kind]
            if not state.exists:
                tx.run(self._statement(target, _create(place.name, target, self._of(target).dialect)))
            for column in state.to_add:
                add = f"ALTER TABLE {place.name} ADD COLUMN {quoted(column.name)} {kinds[column.type]}"
                tx.run(self._statement(target, add))
            if not state.exists or state.to_add:
                place = self._place(tx, target)
            self._remember(target, place)
        return state

    def insert(self, target: Target, chunks: Iterable[Sequence[Row]], hold: Hold, now: datetime) -> int:
        """Store a page: how many of its rows were new. LeaseLost if its run may write no more."""
        if not target.database:
            with self._database.write() as tx:
                count = self._insert(tx, target, chunks, now)
                saved = tx.run(
                    "save_page", id=hold.execution_id, fence=hold.fence, checkpoint=hold.checkpoint
                )
                if saved != 1:
                    raise _lost()
            return count
        with self._database.read() as tx:
            if tx.row("may_write", id=hold.execution_id, fence=hold.fence) is None:
                raise _lost()
        with self._of(target).write() as tx:
            count = self._insert(tx, target, chunks, now)
        with self._database.write() as tx:
            if tx.run("save_page", id=hold.execution_id, fence=hold.fence, checkpoint=hold.checkpoint) != 1:
                raise _lost()
        return count

    def delete_rows(self, target: Target) -> int:
        """Remove what a source has stored; how much that was."""
        with self._writing(target) as (tx, place):
            if not place.has(SOURCE_NAME):
                return 0
            sql = f"DELETE FROM {place.name} WHERE {SOURCE_NAME} = :source"
            return tx.run(self._statement(target, sql), source=target.source)

    def close(self) -> None:
        with self._lock:
            others, self._others = self._others, OrderedDict()
        for database in others.values():
            database.close()

    # -- within

    def _insert(self, tx: Tx, target: Target, chunks: Iterable[Sequence[Row]], now: datetime) -> int:
        known = self._inserts.get(target)
        if known is None:
            raise StoreError(f"The table {target.table} was not prepared.")
        statement, hashed = known
        created = {"created": _instant(now)} if "created" in statement.parameters else {}
        count = 0
        for chunk in chunks:
            batch = chunk if hashed else [row[:-1] for row in chunk]
            if batch:
                count += tx.run(statement, batch, source=target.source, **created)
        return count

    def _remember(self, target: Target, place: Place) -> None:
        made = _insertion(target, place, self._of(target).dialect), place.ours
        with self._lock:
            self._inserts[target] = made
            self._inserts.move_to_end(target)
            if len(self._inserts) > REMEMBERED:
                self._inserts.popitem(last=False)

    @contextmanager
    def _reading(self, target: Target) -> Iterator[tuple[Tx, Place]]:
        with self._of(target).read() as tx:
            yield tx, self._place(tx, target)

    @contextmanager
    def _writing(self, target: Target) -> Iterator[tuple[Tx, Place]]:
        with self._of(target).write() as tx:
            yield tx, self._place(tx, target)

    def _place(self, tx: Tx, target: Target) -> Place:
        check_table_name(target.table)
        schema, _, name = target.table.rpartition(".")
        if schema and not self._is_postgres(target):
            raise Invalid(f"table: {target.table!r} names a schema, and SQLite has none.")
        if schema == self._of(target).dialect.schema:
            raise Invalid(f"table: {target.table!r} lies in the schema of the scheduler itself.")
        if not schema and self._is_postgres(target):
            (usual,) = tx.row("usual_schema") or (None,)
            ours = usual == self._of(target).dialect.schema
            schema = "public" if usual is None or ours else str(usual)
        found = tx.rows("columns_of", schema=schema, name=name)
        columns = tuple(Found(a, b, c, bool(d)) for a, b, c, d in found)
        return Place(f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name), columns)

    def _statement(self, target: Target, sql: str) -> Statement:
        return self._of(target).dialect.statement(sql, "records")

    def _is_postgres(self, target: Target) -> bool:
        return self._of(target).dialect.kind is Kind.POSTGRES

    def _of(self, target: Target) -> Database:
        """The database of a target: ours, or another one, which is opened when it is first asked for."""
        if not target.database:
            return self._database
        url = Secret(target.database).reveal()
        with self._lock:
            database = self._others.get(url)
            if database is None:
                database = open_database(url, max_connections=CONNECTIONS)
                database.load(QUERIES)
                self._others[url] = database
                if len(self._others) > OTHERS:
                    self._others.popitem(last=False)[1].close()
            return database


def quoted(name: str) -> str:
    """A checked name, as it stands in a statement."""
    return f'"{name}"'


def _state(target: Target, place: Place) -> TableState:
    if not place.columns:
        check_new_table(target)
        return TableState(exists=False, ours=True)
    to_add = missing_columns(target, [column.name for column in place.columns], place.ours)
    return TableState(exists=True, ours=place.ours, to_add=to_add)


def _create(name: str, target: Target, dialect: Dialect) -> str:
    kinds = TYPES[dialect.kind]
    by_itself = dialect.kind is Kind.POSTGRES
    columns = [
        f"{ID} bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
        if by_itself
        else f"{ID} INTEGER PRIMARY KEY",
        f"{SOURCE_NAME} {kinds[ColumnType.TEXT]} NOT NULL",
        f"{CREATED_AT} {kinds[ColumnType.TIMESTAMP]} NOT NULL",
        *(f"{quoted(column.name)} {kinds[column.type]}" for column in target.columns),
        f"{HASH} {dialect.type_of('bytes')} NOT NULL UNIQUE",
    ]
    return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})"


def _insertion(target: Target, place: Place, dialect: Dialect) -> Statement:
    """What inserts a batch of rows: the mapped columns as c0, c1 …, and the hash where the table has one."""
    postgres = dialect.kind is Kind.POSTGRES
    names = [quoted(SOURCE_NAME)]
    values = ["CAST(:source AS text)" if postgres else ":source"]
    sent = []
    for number, column in enumerate(target.columns):
        found = place.find(column.name)
        assert found is not None
        names.append(quoted(found.name))
        values.append(_cast(f"u.c{number}", column.type, found) if postgres else f"u.c{number}")
        sent.append(f"c{number} {SENT_AS.get(column.type, 'text')}")
    if place.ours:
        names.append(HASH)
        values.append("u.hash")
        sent.append("hash bytes")
    if _sets_created_at(target, place):
        names.append(CREATED_AT)
        values.append("CAST(:created AS timestamptz)" if postgres else ":created")
    sql = (
        f"INSERT INTO {place.name} ({', '.join(names)}) SELECT {', '.join(values)} "
        f"FROM {{rows: {', '.join(sent)}}} WHERE true ON CONFLICT DO NOTHING"
    )
    return dialect.statement(sql, "insert_records")


def _cast(cell: str, kind: ColumnType, found: Found) -> str:
    """A cell as the type of its column. Text goes into a column of text as it is: a cast would cut it."""
    if found.category == A_TEXT:
        return cell if kind not in SENT_AS else f"{cell}::text"
    meant = {
        ColumnType.BOOLEAN: f"{cell}::int::boolean",
        ColumnType.TIMESTAMP: f"{cell}::timestamptz",
        ColumnType.DATE: f"{cell}::date",
        ColumnType.JSON: f"{cell}::jsonb",
    }.get(kind, cell)
    return f"{meant}::{found.type}"


def _sets_created_at(target: Target, place: Place) -> bool:
    found = place.find(CREATED_AT)
    mapped = any(column.name.lower() == CREATED_AT for column in target.columns)
    if found is None or mapped:
        return False
    return place.ours or (
        not found.has_default and found.type.lower().startswith(("timestamp", "text", "datetime"))
    )


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _shown(cell: Any) -> Any:
    return cell.hex() if isinstance(cell, bytes) else cell


def _lost() -> LeaseLost:
    return LeaseLost("This run no longer holds its execution, or was asked to stop: nothing was stored.")
