"""Rows for `COPY … (FORMAT binary)` of PostgreSQL."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import partial
from itertools import chain
from struct import Struct
from typing import Any, Final

from ostinato.features.sources.rules.tables import ColumnType, Row
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
