"""Writing of records to tables: what a page, and what the end of a run does to a table. Callers open the transaction.

A page of `insert` is inserted, and rows that exist stay. With `upsert` and `history` the rows of a page are compared
with the table first, inside the transaction, since the page before may have changed them; then only new and changed
rows are written. In tables of users the database compares, because it may store other cells than it was sent.

With `replace`, pages go to a stage; `publish` makes the table equal to it. With `deletions: absent` the stage has the
keys of the run, and `publish` deletes the others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from struct import Struct
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.tables import ColumnType, Row, RowChanges, Target, WriteMode
from ostinato.features.sources.stages import RunStage
from ostinato.features.sources.table_statements import Copying, Publishing, Writing
from ostinato.store.database import Tx
from ostinato.store.dialect import Statement
from ostinato.store.rows import LENGTH, NULL, bigint, double, raw, text, to_micros

FIELDS: Final = Struct("!h").pack  # the number of fields of a row
COPY_BEGINS: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension of the header
COPY_ENDS: Final = FIELDS(-1)
EPOCH_2000: Final = to_micros(datetime.fromisoformat("2000-01-01T00:00:00Z"))  # PostgreSQL's epoch
FIRST_DAY: Final = date(2000, 1, 1).toordinal()
JSONB: Final = b"\1"  # the version of the format
TRUTH: Final = {True: LENGTH(1) + b"\1", False: LENGTH(1) + b"\0"}

Item = Callable[[Any], bytes]

_day: Final = partial(Struct("!ii").pack, 4)


def _instant(value: str) -> bytes:
    return bigint(to_micros(datetime.fromisoformat(value)) - EPOCH_2000)


def _date(value: str) -> bytes:
    return _day(date.fromisoformat(value).toordinal() - FIRST_DAY)


def _json(value: str) -> bytes:
    return raw(JSONB + value.encode())


ITEMS: Final[dict[ColumnType | None, Item]] = {
    None: raw,
    ColumnType.TEXT: text,
    ColumnType.INTEGER: bigint,
    ColumnType.NUMBER: double,
    ColumnType.BOOLEAN: TRUTH.__getitem__,
    ColumnType.TIMESTAMP: _instant,
    ColumnType.DATE: _date,
    ColumnType.JSON: _json,
}
OFTEN_THE_SAME: Final = frozenset({ColumnType.TIMESTAMP, ColumnType.DATE})  # and costly to convert


class Packed(list[Row]):
    """Rows with their binary form by hash, the last row first; of equal hashes the first row counts."""

    def __init__(self, rows: Sequence[Row], kinds: Sequence[ColumnType | None]) -> None:
        super().__init__(rows)
        *columns, hashes = zip(*reversed(rows), strict=True) if rows else [()] * (len(kinds) + 1)
        cells = [_column(kind, column) for kind, column in zip(kinds, columns, strict=True)]
        laid_out = map(b"".join, zip(*cells, map(raw, hashes), strict=True))
        self.by_hash: dict[bytes, bytes] = dict(zip(hashes, laid_out, strict=True))

    def leave_out(self, hashes: Iterable[bytes]) -> None:
        """Remove the rows with these hashes: the table has them already."""
        for of in hashes:
            self.by_hash.pop(of, None)


def copied(source: str, instants: Sequence[str], fields: int, rows: Iterable[bytes]) -> bytes:
    """Return rows for `COPY … (FORMAT binary)`, each after the cells that all rows share."""
    given = [text(source), *map(_instant, instants)]
    return laid_out(FIELDS(len(given) + fields) + b"".join(given), rows)


def laid_out(head: bytes, rows: Iterable[bytes]) -> bytes:
    """Return rows for `COPY … (FORMAT binary)`, each after the same bytes."""
    return b"".join((COPY_BEGINS, *chain.from_iterable((head, row) for row in rows), COPY_ENDS))


def _column(kind: ColumnType | None, cells: tuple[Any, ...]) -> Iterable[bytes]:
    item = ITEMS[kind]
    if kind in OFTEN_THE_SAME:
        known = {cell: item(cell) for cell in set(cells) if cell is not None}
        return [known.get(cell, NULL) for cell in cells]
    return map(item, cells) if None not in cells else (NULL if cell is None else item(cell) for cell in cells)


MOST_STAGED: Final = (
    1_000_000  # rows in the scheduler's own SQLite file: its one writer is busy while they are published
)


class TooManyDeleted(Invalid):
    """A run would delete more rows than limits.maxDeleted allows."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Instants of a run, as text: the time of a write, and the time from which its versions are valid."""

    now: str
    at: str = ""

    def of(self, name: str) -> str:
        return self.now if name == "now" else self.at


@dataclass(frozen=True, slots=True)
class Fill:
    """A page or the end of a run, on its way into a table."""

    tx: Tx
    target: Target
    moments: Moments

    def run(self, statement: Statement, batch: Sequence[Row] | None = None) -> int:
        """Run a statement with the parameters that it names."""
        if batch is not None and not batch:
            return 0
        known = {"source": self.target.source, "now": self.moments.now, "at": self.moments.at}
        return self.tx.run(statement, batch, **{name: known[name] for name in statement.parameters})

    def count(self, statement: Statement) -> int:
        found = self.tx.rows(statement, None, **dict.fromkeys(statement.parameters, self.target.source))
        return int(found[0][0])


# -- a page


def insert(fill: Fill, into: Writing, chunks: Iterable[Sequence[Row]], quickly: bool) -> RowChanges:
    """Insert the rows that are missing; of equal rows the first."""
    inserted = offered = 0
    for chunk in chunks:
        offered += len(chunk)
        if into.copying is not None and quickly:
            inserted += _copied(fill, into.copying, chunk)
        else:
            inserted += fill.run(into.insert, chunk if into.hashed else [row[:-1] for row in chunk])
    return RowChanges(inserted, unchanged=offered - inserted)


def change(fill: Fill, into: Writing, chunk: Sequence[Row], quickly: bool) -> RowChanges:
    """Write the rows of a chunk that are new or differ, and delete those that are marked; of equal keys the last."""
    rows = latest(chunk, fill.target)
    marked = [row for row in rows if row[-2] is None]
    kept = [row for row in rows if row[-2] is not None] if marked else rows
    new, others = _compared(fill, into, kept)
    inserted = _inserted(fill, into, new, quickly)
    updated = sum(fill.run(statement, others) for statement in into.replace)
    if into.close is not None:
        ended = fill.run(into.close, others)
        inserted += fill.run(into.insert, others) - ended
        updated += ended
    elif into.there is None:
        inserted += fill.run(into.insert, others)
    deleted = sum(fill.run(statement, marked) for statement in into.delete)
    ignored = len(marked) - deleted
    return RowChanges(inserted, updated, len(chunk) - inserted - updated - len(marked), deleted, ignored)


def latest(chunk: Sequence[Row], target: Target) -> list[Row]:
    """Return one row for each hash: the last, or the one with the greatest value of `newest`."""
    if not target.write.newest:
        found = {row[-1]: row for row in chunk}
        return list(chunk) if len(found) == len(chunk) else list(found.values())
    place = [column.name for column in target.columns].index(target.write.newest)
    best: dict[object, Row] = {}
    for row in chunk:
        known = best.get(row[-1])
        if known is None or row[-2] is None or _is_not_older(row[place], known[place]):
            best[row[-1]] = row
    return list(best.values())


def _is_not_older(one: object, other: object) -> bool:
    return other is None or (one is not None and one >= other)  # type: ignore[operator]


def _compared(fill: Fill, into: Writing, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Divide rows into new and changed ones; all others stay. Without digests all may be changed ones."""
    if into.there is None or not rows:
        return [], rows
    known: dict[bytes, bytes | None] = dict(fill.tx.rows(into.there, hashes=[row[-1] for row in rows]))
    new = [row for row in rows if row[-1] not in known]
    if not known:
        return new, []
    return new, [row for row in rows if row[-1] in known and known[row[-1]] != row[-2]]


def _inserted(fill: Fill, into: Writing, rows: list[Row], quickly: bool) -> int:
    if into.copying is None or not quickly or not rows:
        return fill.run(into.insert, rows)
    packed = Packed(rows, into.copying.kinds)
    _copy(fill, into.copying, packed)
    return len(packed.by_hash)


def _copied(fill: Fill, copying: Copying, chunk: Sequence[Row]) -> int:
    packed = chunk if isinstance(chunk, Packed) else pack(fill.tx, copying, chunk)
    _copy(fill, copying, packed)
    return len(packed.by_hash)


def _copy(fill: Fill, copying: Copying, packed: Packed) -> None:
    left = packed.by_hash.values()
    if left:
        instants = [fill.moments.of(name) for name in copying.shared]
        fill.tx.copy(copying.into, copied(fill.target.source, instants, len(copying.kinds) + 1, reversed(left)))


def pack(tx: Tx, copying: Copying, rows: Sequence[Row]) -> Packed:
    """Convert rows for COPY, without those that the table has."""
    packed = Packed(rows, copying.kinds)
    packed.leave_out(of for (of,) in tx.rows(copying.there, hashes=list(packed.by_hash)))
    return packed


# -- the stage


def put_on_stage(fill: Fill, stage: RunStage, chunk: Sequence[Row]) -> int:
    """Put the rows of a chunk on the stage, of equal keys the last; return the number of new ones."""
    rows = [row for row in latest(chunk, fill.target) if row[-2] is not None]
    if len(stage.picks) < len(fill.target.columns):
        rows = [(*(row[each] for each in stage.picks), *row[-2:]) for row in rows]
    if stage.copying is None:
        added = fill.run(stage.add, rows)
        if added < len(rows) and fill.target.mode is WriteMode.REPLACE:
            fill.run(stage.change, rows)
        return added
    packed = pack(fill.tx, stage.copying, rows)
    left = packed.by_hash
    if left:
        head = FIELDS(len(stage.copying.kinds) + 1)
        fill.tx.copy(stage.copying.into, laid_out(head, reversed(left.values())))
    if len(left) < len(rows) and fill.target.mode is WriteMode.REPLACE:
        fill.run(stage.change, [row for row in rows if row[-1] not in left])
    return len(left)


def publish(fill: Fill, stage: RunStage, statements: Publishing, most_deleted: float) -> RowChanges:
    """Make the table equal to the stage; return the changes. Raise TooManyDeleted beyond a share of its rows."""
    there, gone = fill.count(statements.count), fill.count(statements.count_gone)
    if gone > most_deleted * there:
        raise TooManyDeleted(
            f"{gone:,} of {there:,} rows of {fill.target.table} would be deleted, more than limits.maxDeleted allows "
            f"({most_deleted:.0%}). If this is right: ostinato source run {fill.target.source} --allow-deletions"
        )
    updated = 0 if statements.update is None else fill.run(statements.update)
    inserted = 0 if statements.insert is None else fill.run(statements.insert)
    deleted = fill.run(statements.delete_gone) if gone else 0
    fill.run(stage.empty)
    return RowChanges(inserted, updated, 0, deleted)
