"""The records of sources in users' tables; only this module writes to them.

A page of records is one transaction, together with the check of the fence and the checkpoint of its run. So a worker
that lost its lease writes nothing, and a page is stored completely or not at all. Existing rows stay unchanged (`ON
CONFLICT DO NOTHING`): in our tables by the hash of their unique tuple, in a user's table by its own unique constraints.

If the table is in another database, one transaction is impossible. Then the fence is checked before and after, and a
page stored twice gives the same rows.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from os.path import exists
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.core.errors import Invalid, LeaseLost, StoreError, StoreUnavailable
from ostinato.features.sources.copying import Packed, copied
from ostinato.features.sources.databases import Reach
from ostinato.features.sources.rules.tables import (
    CREATED_AT,
    HASH,
    ID,
    SOURCE_NAME,
    Cell,
    ColumnType,
    MappedColumn,
    Row,
    TableState,
    Target,
    check_new_table,
    check_table_name,
    missing_columns,
)
from ostinato.features.sources.table_statements import (
    TYPES,
    Copying,
    ExistingColumn,
    Insertion,
    TargetTable,
    creation,
    insertion,
    quoted,
)
from ostinato.store.database import Database, Duplicate, Tx
from ostinato.store.dialect import DatabaseKind, Statement
from ostinato.store.store import Store

QUERIES: Final = Path(__file__).with_name("rows.sql")
CACHED_STATEMENTS: Final = 500  # tables whose statement is cached
OTHERS: Final = 20  # other databases that stay open

Chunks = Iterable[Sequence[Row]]  # the rows of a page


class Hold(NamedTuple):
    """The owner of a page: an execution and its fence."""

    execution_id: UUID
    fence: int


class SourceRecords:
    """Creation, filling and reading of the tables that sources write to."""

    def __init__(self, store: Store) -> None:
        self._database, self._reach = store.database, Reach.of(store.settings)
        self._others: OrderedDict[str, Database] = OrderedDict()
        self._inserts: OrderedDict[Target, Insertion] = OrderedDict()
        self._lock = threading.Lock()

    # -- queries

    def look(self, target: Target) -> TableState:
        """Return the state of a target's table; raise Invalid if it is not writable. Change nothing."""
        if self._is_missing(target):
            return _state(target, TargetTable(target.table, ()))
        with self._reading(target) as (_, place):
            return _state(target, place)

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        """Return the greatest value of a column that a source has stored."""
        if self._is_missing(target):
            return None
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
        """Return the rows of a source, the newest first, by column; none without a table."""
        if self._is_missing(target):
            return []
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
                return [_as_shown(target, json.loads(text), _of_postgres) for (text,) in found]
            names = [column.name for column in place.columns]
            shown = ", ".join(f"t.{quoted(name)}" for name in names)
            rows = tx.rows(self._statement(target, f"SELECT {shown} {where}"), source=target.source, limit=limit)
        return [_as_shown(target, dict(zip(names, row, strict=True)), _of_sqlite) for row in rows]

    # -- writes

    def prepare(self, target: Target, hold: Hold) -> TableState:
        """Create the table if it is missing, and add missing columns to a table of ours.

        Raise LeaseLost if its run may no longer write.
        """
        for last in (False, True):  # another process may be creating it
            try:
                return self._prepare(target, hold)
            except StoreUnavailable:
                raise
            except StoreError:
                if last:
                    raise
        raise AssertionError

    def _prepare(self, target: Target, hold: Hold) -> TableState:
        if target.database:
            self._require_hold(hold)
        with self._writing(target) as (tx, place):
            if not target.database:
                _require_hold(tx, hold)
            state = _state(target, place)
            kinds = TYPES[self._of(target).dialect.kind]
            if not state.exists:
                tx.run(self._statement(target, creation(place.name, target, self._of(target).dialect)))
            for column in state.to_add:
                add = f"ALTER TABLE {place.name} ADD COLUMN {quoted(column.name)} {kinds[column.type]}"
                tx.run(self._statement(target, add))
            if not state.exists or state.to_add:
                place = self._place(tx, target)
            self._remember(target, place)
        return state

    def pack(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        """Convert rows for their database before the transaction that stores them, to keep it short."""
        into = self._inserts.get(target)
        if into is None or into.copying is None or not rows:
            return rows
        with self._of(target).alone() as tx:
            return _packed(tx, into.copying, rows)

    def insert(
        self, target: Target, chunks: Chunks, hold: Hold, checkpoint: Callable[[int], str], now: datetime
    ) -> int:
        """Store a page and its checkpoint; return the number of new rows, from which `checkpoint` is made.

        Raise LeaseLost if its run may no longer write. `chunks` may be iterated twice.
        """
        try:
            return self._insert(target, chunks, hold, checkpoint, now, quickly=True)
        except Duplicate:  # another process has just stored one of them
            return self._insert(target, chunks, hold, checkpoint, now, quickly=False)

    def _insert(
        self,
        target: Target,
        chunks: Chunks,
        hold: Hold,
        checkpoint: Callable[[int], str],
        now: datetime,
        quickly: bool,
    ) -> int:
        if not target.database:
            with self._database.fill() as tx:
                count = self._fill(tx, target, chunks, now, quickly)
                _save(tx, hold, checkpoint(count))
            return count
        self._require_hold(hold)
        with self._of(target).fill() as tx:
            count = self._fill(tx, target, chunks, now, quickly)
        with self._database.write() as tx:
            _save(tx, hold, checkpoint(count))
        return count

    def _require_hold(self, hold: Hold) -> None:
        """Raise LeaseLost before a write to another database if the run may no longer write."""
        with self._database.read() as tx:
            _require_hold(tx, hold)

    def delete_rows(self, target: Target) -> int:
        """Delete the rows that a source has stored; return their number."""
        if self._is_missing(target):
            return 0
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

    def _fill(self, tx: Tx, target: Target, chunks: Chunks, now: datetime, quickly: bool) -> int:
        into = self._inserts.get(target)
        if into is None:
            raise StoreError(f"The table {target.table} was not prepared.")
        if into.copying is not None and quickly:
            return sum(_copied(tx, into.copying, target, chunk, now) for chunk in chunks)
        created = {"created": _instant(now)} if "created" in into.safe.parameters else {}
        batches = (chunk if into.hashed else [row[:-1] for row in chunk] for chunk in chunks)
        return sum(tx.run(into.safe, batch, source=target.source, **created) for batch in batches if batch)

    def _remember(self, target: Target, place: TargetTable) -> None:
        made = insertion(target, place, self._of(target).dialect)
        with self._lock:
            self._inserts[target] = made
            self._inserts.move_to_end(target)
            if len(self._inserts) > CACHED_STATEMENTS:
                self._inserts.popitem(last=False)

    @contextmanager
    def _reading(self, target: Target) -> Iterator[tuple[Tx, TargetTable]]:
        with self._of(target).read() as tx:
            yield tx, self._place(tx, target)

    @contextmanager
    def _writing(self, target: Target) -> Iterator[tuple[Tx, TargetTable]]:
        with self._of(target).write() as tx:
            yield tx, self._place(tx, target)

    def _place(self, tx: Tx, target: Target) -> TargetTable:
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
        columns = tuple(ExistingColumn(a, b, c, bool(d)) for a, b, c, d in found)
        return TargetTable(f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name), columns)

    def _statement(self, target: Target, sql: str) -> Statement:
        return self._of(target).dialect.statement(sql, "records")

    def _is_postgres(self, target: Target) -> bool:
        return self._of(target).dialect.kind is DatabaseKind.POSTGRES

    def _is_missing(self, target: Target) -> bool:
        """Return True if the file of another database does not exist yet: only a run creates it."""
        return bool(target.database) and not self._is_postgres(target) and not exists(self._of(target).name)

    def check_reference(self, target: Target) -> None:
        """Raise Invalid if the database of a target is named by a reference that this host cannot read."""
        if target.database:
            self._reach.url(target.database)

    def _of(self, target: Target) -> Database:
        """Return the database of a target: ours, or another one, which is opened on first use."""
        if not target.database:
            return self._database
        url = self._reach.url(target.database)
        with self._lock:
            database = self._others.get(url)
            if database is None:
                database = self._reach.open(url, self._database)
                database.load(QUERIES)
                self._others[url] = database
                if len(self._others) > OTHERS:
                    self._others.popitem(last=False)[1].close()
            return database


def _state(target: Target, place: TargetTable) -> TableState:
    if not place.columns:
        check_new_table(target)
        return TableState(exists=False, ours=True)
    to_add = missing_columns(target, [column.name for column in place.columns], place.ours)
    return TableState(exists=True, ours=place.ours, to_add=to_add)


def _copied(tx: Tx, copying: Copying, target: Target, chunk: Sequence[Row], now: datetime) -> int:
    """Copy the rows that are missing; of equal rows the first. Return their number."""
    packed = chunk if isinstance(chunk, Packed) else _packed(tx, copying, chunk)
    left = packed.by_hash.values()
    if left:
        created_at = _instant(now) if copying.dated else None
        tx.copy(copying.into, copied(target.source, created_at, len(copying.kinds) + 1, reversed(left)))
    return len(left)


def _packed(tx: Tx, copying: Copying, rows: Sequence[Row]) -> Packed:
    packed = Packed(rows, copying.kinds)
    packed.leave_out(of for (of,) in tx.rows(copying.there, hashes=list(packed.by_hash)))
    return packed


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_shown(target: Target, row: dict[str, Any], read: Callable[[Any, ColumnType | None], Any]) -> dict[str, Any]:
    """Return a row without its hash, the same from either database."""
    kinds = {column.name.lower(): column.type for column in target.columns}
    return {name: read(cell, kinds.get(name.lower())) for name, cell in row.items() if name != HASH}


def _of_postgres(cell: Any, kind: ColumnType | None) -> Any:
    is_instant = isinstance(cell, str) and kind in (ColumnType.TIMESTAMP, None) and cell.endswith("+00:00")
    return f"{cell[:-6]}Z" if is_instant else cell


def _of_sqlite(cell: Any, kind: ColumnType | None) -> Any:
    """Convert a cell of SQLite, which has neither booleans nor JSON."""
    if isinstance(cell, bytes):
        return cell.hex()
    if kind is ColumnType.BOOLEAN and type(cell) is int:
        return bool(cell)
    if kind is ColumnType.JSON and isinstance(cell, str):
        with suppress(ValueError):
            return json.loads(cell)
    return cell


def _require_hold(tx: Tx, hold: Hold) -> None:
    if tx.row("may_write", id=hold.execution_id, fence=hold.fence) is None:
        raise _lost()


def _save(tx: Tx, hold: Hold, checkpoint: str) -> None:
    if tx.run("save_page", id=hold.execution_id, fence=hold.fence, checkpoint=checkpoint) != 1:
        raise _lost()


def _lost() -> LeaseLost:
    return LeaseLost("This run no longer holds its execution, or was asked to stop: nothing was stored.")
