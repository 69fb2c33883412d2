"""The records of sources in users' tables; only this module and `filling` write to them.

A page of records is one transaction, together with the check of the fence and the checkpoint of its run. So a worker
that lost its lease writes nothing, and a page is stored completely or not at all. `filling` has the modes of writing.

If the table is in another database, one transaction is impossible. Then the fence is checked before and after, and a
page stored twice gives the same rows. A mode that changes rows also moves a fence in that database
(`ostinato_fences`), since a late page would bring old values back.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.core.errors import Invalid, LeaseLost, StoreError, StoreUnavailable
from ostinato.features.sources import filling
from ostinato.features.sources.databases import Places
from ostinato.features.sources.filling import MOST_STAGED, Fill, Moments
from ostinato.features.sources.rules.tables import (
    CREATED_AT,
    HASH,
    ID,
    ROW,
    SOURCE_NAME,
    VALID_FROM,
    Cell,
    ColumnType,
    MappedColumn,
    Row,
    RowChanges,
    TableState,
    Target,
    WriteMode,
    check_own_columns,
    missing_columns,
)
from ostinato.features.sources.stages import RunStage, stage_name, stage_of
from ostinato.features.sources.table_statements import (
    Publishing,
    TargetTable,
    Writing,
    additions,
    check_mode,
    creation,
    publishing,
    quoted,
    writing,
)
from ostinato.store.database import Database, Duplicate, Tx
from ostinato.store.store import Store

CACHED_STATEMENTS: Final = 500  # tables whose statements are cached
PUBLISH_WITHIN: Final = 1800.0  # seconds for the end of a run on PostgreSQL
MICROSECOND: Final = timedelta(microseconds=1)

Chunks = Iterable[Sequence[Row]]  # the rows of a page


class Hold(NamedTuple):
    """The owner of a page: an execution and its fence; for other databases also its job and number."""

    execution_id: UUID
    fence: int
    job_id: UUID | None = None
    number: int = 0


class Stored(NamedTuple):
    """The result of storing a page: the changed rows, and the rows that are new on the stage."""

    written: RowChanges
    staged: int = 0


class Opened(NamedTuple):
    """The table of a run: its state, and the time from which the versions of this run are valid."""

    state: TableState
    at: str


@dataclass(frozen=True, slots=True)
class _Saving:
    """The checkpoint and the state that are saved with a page."""

    checkpoint: Callable[[Stored], str]
    state: Cell
    now: datetime

    def save(self, tx: Tx, hold: Hold, stored: Stored) -> None:
        _save(tx, hold, self.checkpoint(stored))
        if self.state is not None:
            tx.run(
                "save_source_state",
                id=hold.execution_id, fence=hold.fence, part="", cursor=json.dumps(self.state), now=self.now,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The statements of a target's table."""

    writing: Writing
    fences: str  # the table of the fences in another database
    stage: RunStage | None
    publishing: Publishing | None


class SourceRecords:
    """Creation, filling and reading of the tables that sources write to."""

    def __init__(self, store: Store) -> None:
        self._database, self.places = store.database, Places(store)
        self._prepared: OrderedDict[Target, _Prepared] = OrderedDict()
        self._lock = threading.Lock()

    # -- queries

    def look(self, target: Target) -> TableState:
        """Return the state of a target's table; raise Invalid if it is not writable. Change nothing."""
        if self.places.is_missing(target):
            return self._state(target, TargetTable(target.table, ()))
        with self.places.reading(target) as (_, place):
            return self._state(target, place)

    def greatest(self, target: Target, column: MappedColumn) -> Cell:
        """Return the greatest value of a column that a source has stored."""
        if self.places.is_missing(target):
            return None
        with self.places.reading(target) as (tx, place):
            if not place.has(column.name) or not place.has(SOURCE_NAME):
                return None
            cast = "::text" if self.places.is_postgres(target) else ""
            sql = f"SELECT max({quoted(column.name)}){cast} FROM {place.name} WHERE {SOURCE_NAME} = :source"
            (found,) = tx.row(self.places.statement(target, sql), source=target.source) or (None,)
        greatest: Cell = found
        if isinstance(greatest, str) and column.type in (ColumnType.INTEGER, ColumnType.NUMBER):
            return int(greatest) if column.type is ColumnType.INTEGER else float(greatest)
        return greatest

    def newest_at(self, target: Target) -> datetime | None:
        """Return the time of the newest row of a source; None if it has none, or the table has no such column."""
        if self.places.is_missing(target):
            return None
        with self.places.reading(target) as (tx, place):
            column = place.own(CREATED_AT)
            if column is None or not place.has(SOURCE_NAME):
                return None
            cast = "::text" if self.places.is_postgres(target) else ""
            sql = f"SELECT max({quoted(column.name)}){cast} FROM {place.name} WHERE {SOURCE_NAME} = :source"
            (found,) = tx.row(self.places.statement(target, sql), source=target.source) or (None,)
        with suppress(ValueError):
            return None if found is None else _read_instant(found)
        return None

    def newest(self, target: Target, limit: int) -> list[dict[str, Any]]:
        """Return the rows of a source, the newest first, by column; none without a table."""
        if self.places.is_missing(target):
            return []
        with self.places.reading(target) as (tx, place):
            if not place.has(SOURCE_NAME):
                return []
            by = place.own(ID) or place.own(CREATED_AT)
            order = f"ORDER BY t.{quoted(by.name)} DESC" if by else ""
            where = f"FROM {place.name} t WHERE t.{SOURCE_NAME} = :source {order} LIMIT :limit"
            if self.places.is_postgres(target):
                found = tx.rows(
                    self.places.statement(target, f"SELECT row_to_json(t)::text {where}"),
                    source=target.source, limit=limit,
                )  # fmt: skip
                return [_as_shown(target, json.loads(text), _of_postgres) for (text,) in found]
            names = [column.name for column in place.columns]
            shown = ", ".join(f"t.{quoted(name)}" for name in names)
            rows = tx.rows(self.places.statement(target, f"SELECT {shown} {where}"), source=target.source, limit=limit)
        return [_as_shown(target, dict(zip(names, row, strict=True)), _of_sqlite) for row in rows]

    # -- writes

    def open(self, target: Target, hold: Hold, started: datetime) -> Opened:
        """Prepare the table for a run that began then."""
        state = self.prepare(target, hold)
        if target.mode is not WriteMode.HISTORY:
            return Opened(state, "")
        with self.places.reading(target) as (tx, place):
            cast = "::text" if self.places.is_postgres(target) else ""
            sql = f"SELECT max({VALID_FROM}){cast} FROM {place.name} WHERE {SOURCE_NAME} = :source"
            (newest,) = tx.row(self.places.statement(target, sql), source=target.source) or (None,)
        if newest is not None and (last := _read_instant(newest)) > started:
            started = last + MICROSECOND  # the clock was set back; a version never begins before the one it follows
        return Opened(state, _instant(started))

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
        with self.places.writing(target) as (tx, place):
            dialect = self.places.of(target).dialect
            if not target.database:
                _require_hold(tx, hold)
            state = self._state(target, place)
            if not state.exists:
                for sql in creation(place.name, target, dialect):
                    tx.run(self.places.statement(target, sql))
            elif place.ours:
                for name, kind in additions(target, place, dialect):
                    tx.run(self.places.statement(target, f"ALTER TABLE {place.name} ADD COLUMN {quoted(name)} {kind}"))
            place = self.places.place(tx, target)
            if target.database and target.mode is not WriteMode.INSERT:
                tx.run(self.places.statement(target, f"CREATE TABLE IF NOT EXISTS {_fences(place)} {FENCES}"))
                self._move_fence(tx, target, _fences(place), hold)
            self._remember(tx, target, place)
        return state

    def stage(self, target: Target, hold: Hold, expected: int) -> bool:
        """Return True if the stage of a run has as many rows as its checkpoint says; otherwise empty it."""
        stage = self._known(target).stage
        assert stage is not None
        with self._fenced(target, hold) as fill:
            if expected and fill.count(stage.count) == expected:
                return True
            fill.run(stage.empty)
        return not expected

    def pack(self, target: Target, rows: Sequence[Row]) -> Sequence[Row]:
        """Convert rows for their database before the transaction that stores them, to keep it short.

        Only `insert` allows that: its page does not depend on the page before.
        """
        into = self._prepared.get(target)
        if into is None or into.writing.copying is None or not rows or target.mode is not WriteMode.INSERT:
            return rows
        with self.places.of(target).alone() as tx:
            return filling.pack(tx, into.writing.copying, rows)

    def insert(
        self,
        target: Target,
        chunks: Chunks,
        hold: Hold,
        checkpoint: Callable[[Stored], str],
        now: datetime,
        at: str = "",
        state: Cell = None,
    ) -> Stored:
        """Store a page, its checkpoint, which `checkpoint` makes of the result, and the new state of the source.

        Raise LeaseLost if its run may no longer write. `chunks` may be iterated twice.
        """
        moments = Moments(_instant(now), at)
        try:
            return self._insert(target, chunks, hold, _Saving(checkpoint, state, now), moments, quickly=True)
        except Duplicate:  # another process has just stored one of them
            return self._insert(target, chunks, hold, _Saving(checkpoint, state, now), moments, quickly=False)

    def _insert(
        self,
        target: Target,
        chunks: Chunks,
        hold: Hold,
        saving: "_Saving",
        moments: Moments,
        quickly: bool,
    ) -> Stored:
        if not target.database:
            with self._database.fill() as tx:
                stored = self._fill(Fill(tx, target, moments), chunks, quickly)
                saving.save(tx, hold, stored)
            return stored
        self._require_hold(hold)
        with self.places.of(target).fill() as tx:
            if target.mode is not WriteMode.INSERT:
                self._move_fence(tx, target, self._known(target).fences, hold)
            stored = self._fill(Fill(tx, target, moments), chunks, quickly)
        with self._database.write() as tx:
            saving.save(tx, hold, stored)
        return stored

    def publish(
        self,
        target: Target,
        hold: Hold,
        checkpoint: Callable[[Stored], str],
        now: datetime,
        at: str,
        most_deleted: float,
    ) -> Stored:
        """Make the table equal to the stage of a complete run; raise TooManyDeleted beyond that share of its rows."""
        known = self._known(target)
        assert known.stage is not None
        assert known.publishing is not None
        with self._fenced(target, hold, Moments(_instant(now), at), PUBLISH_WITHIN) as fill:
            self._check_staged(fill, known.stage)
            if self.places.is_postgres(target):
                _plan_by_size(fill.tx, self.places.of(target))
            stored = Stored(filling.publish(fill, known.stage, known.publishing, most_deleted))
            if not target.database:
                _save(fill.tx, hold, checkpoint(stored))
        if target.database:
            with self._database.write() as tx:
                _save(tx, hold, checkpoint(stored))
        return stored

    @contextmanager
    def _fenced(
        self, target: Target, hold: Hold, moments: Moments | None = None, within: float | None = None
    ) -> Iterator[Fill]:
        """Open a transaction on the database of a target; raise LeaseLost if its run may no longer write."""
        if target.database:
            self._require_hold(hold)
        with self.places.of(target).write(within if self.places.is_postgres(target) else None) as tx:
            if target.database:
                self._move_fence(tx, target, self._known(target).fences, hold)
            else:
                _require_hold(tx, hold)
            yield Fill(tx, target, moments or Moments(""))

    def _require_hold(self, hold: Hold) -> None:
        """Raise LeaseLost before a write to another database if the run may no longer write."""
        with self._database.read() as tx:
            _require_hold(tx, hold)

    def _move_fence(self, tx: Tx, target: Target, name: str, hold: Hold) -> None:
        """Raise LeaseLost if a later run of the job has written to another database already."""
        moved = self.places.statement(
            target,
            f"INSERT INTO {name} AS f (job, execution_number, fence) VALUES (:job, :number, :fence) "
            "ON CONFLICT (job) DO UPDATE SET execution_number = :number, fence = :fence "
            "WHERE (f.execution_number, f.fence) <= (:number, :fence)",
        )
        if tx.run(moved, job=str(hold.job_id), number=hold.number, fence=hold.fence) != 1:
            raise _lost()

    def forget(self, target: Target) -> None:
        """Drop the stage of a deleted source."""
        if self.places.is_missing(target):
            return
        with self.places.writing(target) as (tx, place):
            tx.run(self.places.statement(target, f"DROP TABLE IF EXISTS {self._stage_name(target, place)}"))

    def delete_rows(self, target: Target) -> int:
        """Delete the rows that a source has stored; return their number."""
        if self.places.is_missing(target):
            return 0
        with self.places.writing(target) as (tx, place):
            if not place.has(SOURCE_NAME):
                return 0
            sql = f"DELETE FROM {place.name} WHERE {SOURCE_NAME} = :source"
            return tx.run(self.places.statement(target, sql), source=target.source)

    def close(self) -> None:
        self.places.close()

    # -- within

    def _fill(self, fill: Fill, chunks: Chunks, quickly: bool) -> Stored:
        target, into = fill.target, self._known(fill.target)
        if target.mode is WriteMode.INSERT:
            return Stored(filling.insert(fill, into.writing, chunks, quickly))
        written, staged = RowChanges(), 0
        for chunk in chunks:
            if target.mode is not WriteMode.REPLACE:
                written = written.plus(filling.change(fill, into.writing, chunk, quickly))
            if into.stage is not None:
                staged += filling.put_on_stage(fill, into.stage, chunk)
        return Stored(written, staged)

    def _check_staged(self, fill: Fill, stage: RunStage) -> None:
        """Refuse too many rows in the scheduler's own SQLite file; its only writer would be busy for too long."""
        if fill.target.database or self.places.is_postgres(fill.target):
            return
        if fill.count(stage.count) > MOST_STAGED:
            raise Invalid(f"write: replace of more than {MOST_STAGED:,} rows needs a database of its own: {OWN_FILE}.")

    def _known(self, target: Target) -> _Prepared:
        found = self._prepared.get(target)
        if found is None:
            raise StoreError(f"The table {target.table} was not prepared.")
        return found

    def _remember(self, tx: Tx, target: Target, place: TargetTable) -> None:
        dialect, stage, published = self.places.of(target).dialect, None, None
        if target.is_staged:
            stage = stage_of(target, place, self._stage_name(target, place), dialect)
            self._make_stage(tx, target, stage)
            published = publishing(target, place, stage.name, dialect)
        made = _Prepared(writing(target, place, dialect), _fences(place), stage, published)
        with self._lock:
            self._prepared[target] = made
            self._prepared.move_to_end(target)
            if len(self._prepared) > CACHED_STATEMENTS:
                self._prepared.popitem(last=False)

    def _make_stage(self, tx: Tx, target: Target, stage: RunStage) -> None:
        """Create the stage; one with other columns is of an earlier definition, and is dropped."""
        schema, _, name = stage.name.replace('"', "").rpartition(".")
        found = [column for column, *_ in tx.rows("columns_of", schema=schema, name=name)]
        if found and found != [column.partition(" ")[0] for column in stage.columns]:
            tx.run(self.places.statement(target, f"DROP TABLE {stage.name}"))
            found = []
        if not found:
            for sql in stage.creation:
                tx.run(self.places.statement(target, sql))

    def _stage_name(self, target: Target, place: TargetTable) -> str:
        schema = place.name.rpartition(".")[0].strip('"')
        return stage_name(target, schema, self.places.of(target).dialect)

    def _state(self, target: Target, place: TargetTable) -> TableState:
        if not place.columns:
            return TableState(exists=False, ours=True)
        names = [column.name for column in place.columns]
        to_add = missing_columns(target, names, place.ours)
        if place.ours:
            check_own_columns(target, names)
        check_mode(target, place)
        return TableState(exists=True, ours=place.ours, to_add=to_add)


FENCES: Final = "(job text PRIMARY KEY, execution_number bigint NOT NULL, fence bigint NOT NULL)"
OWN_FILE: Final = "set `database` to another SQLite file or to PostgreSQL"


def _fences(place: TargetTable) -> str:
    """Return the quoted name of the fences beside a table."""
    schema = place.name.rpartition(".")[0]
    return f"{schema}.ostinato_fences" if schema else "ostinato_fences"


def _plan_by_size(tx: Tx, database: Database) -> None:
    """Let PostgreSQL plan by the sizes of the tables, as for reads, until the transaction ends."""
    from ostinato.store.postgres import BY_INDEX  # only here: psycopg takes a while to import

    for name in BY_INDEX:
        tx.run(database.dialect.statement(f"SET LOCAL {name} TO DEFAULT"))


def _read_instant(value: Any) -> datetime:
    at = datetime.fromisoformat(str(value))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _as_shown(target: Target, row: dict[str, Any], read: Callable[[Any, ColumnType | None], Any]) -> dict[str, Any]:
    """Return a row without its hash, the same from either database."""
    kinds = {column.name.lower(): column.type for column in target.columns}
    return {name: read(cell, kinds.get(name.lower())) for name, cell in row.items() if name not in (HASH, ROW)}


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
