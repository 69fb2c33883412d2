"""Lists as binary arrays of PostgreSQL.

psycopg's own list dumper looks at every element to find a type: 9.6 µs for a row of eight columns. It also gives a list
of small numbers another type, and so another plan, than one of large numbers. Here the statement names the type.
"""

from collections.abc import Callable
from datetime import datetime
from struct import Struct
from typing import Any, Final
from uuid import UUID

from psycopg.adapt import Dumper
from psycopg.pq import Format

from ostinato.store.rows import LENGTH, NULL, bigint, double, raw, text, to_bytes, to_micros

SIXTEEN: Final = LENGTH(16)
EMPTY_HEAD: Final = Struct("!iiI").pack
HEAD: Final = Struct("!iiIii").pack


class _ArrayDumper(Dumper):
    """Dumper of a list as an array of one type, whatever its elements."""

    format = Format.BINARY
    element: int  # the type's number in PostgreSQL
    item: Callable[[Any], bytes]

    def dump(self, obj: Any) -> bytes:
        if not obj:
            return EMPTY_HEAD(0, 0, self.element)
        item = self.item
        items = [NULL if value is None else item(value) for value in obj]
        return HEAD(1, int(NULL in items), self.element, len(obj), 1) + b"".join(items)


def _uuid(value: UUID | bytes) -> bytes:
    return SIXTEEN + to_bytes(value)


def _instant(value: datetime | int) -> bytes:
    return bigint(to_micros(value) if isinstance(value, datetime) else value)


def _array(oid: int, element: int, item: Callable[[Any], bytes]) -> tuple[type[list[Any]], type[Dumper]]:
    """Make a list class and its dumper."""
    dumper = {"oid": oid, "element": element, "item": staticmethod(item)}
    return type("Array", (list,), {}), type("Dumper", (_ArrayDumper,), dumper)


DUMPERS: Final = {
    "uuid": _array(2951, 2950, _uuid),
    "bigint": _array(1016, 20, bigint),
    "instant": _array(1016, 20, _instant),
    "double": _array(1022, 701, double),
    "text": _array(1009, 25, text),
    "json": _array(1009, 25, text),
    "bytes": _array(1001, 17, raw),
}
ARRAYS: Final = {kind: values for kind, (values, _) in DUMPERS.items()}
