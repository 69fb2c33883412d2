"""Mapping of records to rows: values are found, converted to the type of their column, and hashed.

A record that cannot be converted is rejected with the reason, and the others go on. A record without any value of the
unique tuple is rejected too: all such records would be one row. So is a record that lacks a part of its primary key.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from ostinato.features.sources.rules.converting import CONVERT, Convert, cells_of, compact
from ostinato.features.sources.rules.definition import Source
from ostinato.features.sources.rules.paths import Get, column_getter, getter
from ostinato.features.sources.rules.tables import Cell, Row, WriteMode

EXCERPT: Final = 200  # characters of a record that was rejected
BEGINNING: Final = 13  # a day, and the quote before it; most numbers
NOTHING: Final = "none of the fields that tell it from others is there"
ODD: Final = (ValueError, TypeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected record, and the reason."""

    page: int
    record: int  # its place in the page, from 1
    field: str
    reason: str
    excerpt: str

    def __str__(self) -> str:
        return f"page {self.page}, record {self.record}, field {self.field}: {self.reason}"


class Mapper:
    """Converter of a source's records to rows: the mapped cells, a digest of them if rows may change, and the hash.

    Records that the API marks as deleted have no digest; where they delete nothing they are left out, and `ignored`
    counts them.

    Records are mapped column by column, which takes half the time of record by record. After any error they are mapped
    one by one, to find the bad record and the reason.
    """

    def __init__(self, source: Source) -> None:
        fields = source.response.fields
        self._fields = [(getter(each.source), CONVERT[each.column.type]) for each in fields]
        self._columns = [(column_getter(each.source), each.column.type) for each in fields]
        self._names = [each.source for each in fields]
        names = [each.column.name for each in fields]
        self._unique = [names.index(name) for name in source.response.unique]
        self._about = ", ".join(source.response.unique)
        self._hash = Hash(source.name)
        self._whole_key = source.response.whole_key
        self._digested = source.target.mode is not WriteMode.INSERT
        self._mark, self._deletes = source.mark, source.deletes_marked
        self.ignored = 0

    def rows(self, records: list[Any], page: int, rejected: list[Rejection], counted: int = 0) -> list[Row]:
        """Map records to rows, in order; rejections go to the list. `counted`: records of the page before these."""
        try:
            return self._at_once(records)
        except ODD:
            return list(self._one_by_one(records, page, rejected, counted))

    def _at_once(self, records: list[Any]) -> list[Row]:
        marked = [] if self._mark is None else self._marked(records)
        if marked and not self._deletes:
            records = [record for record, is_marked in zip(records, marked, strict=True) if not is_marked]
        columns = [cells_of(get(records), kind) for get, kind in self._columns]
        keys = [columns[place] for place in self._unique]
        if any(None in key for key in (keys if self._whole_key else keys[:1])):
            raise ValueError("a record may lack fields of the unique tuple")
        if self._digested:
            columns.append(digests_of(zip(*columns, strict=True)))
            if self._deletes and True in marked:
                columns[-1] = [None if gone else of for of, gone in zip(columns[-1], marked, strict=True)]
        rows = list(zip(*columns, self._hash.of(zip(*keys, strict=True)), strict=True))
        self.ignored += len(marked) - len(records) if marked and not self._deletes else 0
        return rows

    def _marked(self, records: list[Any]) -> list[bool]:
        """Tell which records the API marks as deleted."""
        assert self._mark is not None
        wanted = self._mark.equals
        found = column_getter(self._mark.field)(records)
        return [value == wanted and isinstance(value, bool) == isinstance(wanted, bool) for value in found]

    def _one_by_one(self, records: list[Any], page: int, rejected: list[Rejection], counted: int) -> Iterator[Row]:
        fields: list[tuple[Get, Convert]] = self._fields
        for number, record in enumerate(records, counted + 1):
            row: list[Cell] = []
            is_marked = self._mark is not None and self._marked([record])[0]
            if is_marked and not self._deletes:
                self.ignored += 1
                continue
            try:
                for get, convert in fields:
                    value = get(record)
                    row.append(None if value is None else convert(value))
            except ODD as error:
                rejected.append(self._rejection(page, number, self._names[len(row)], str(error), record))
                continue
            key = [row[place] for place in self._unique]
            if key.count(None) == len(key) or (self._whole_key and None in key):
                none = "a part of its key is missing" if self._whole_key else NOTHING
                rejected.append(self._rejection(page, number, self._about, none, record))
                continue
            if self._digested:
                row.append(None if is_marked else digests_of([tuple(row)])[0])
            row += self._hash.of([tuple(key)])
            yield tuple(row)

    @staticmethod
    def _rejection(page: int, number: int, field: str, reason: str, record: Any) -> Rejection:
        return Rejection(page, number, field, reason[:EXCERPT], _excerpt(record))


class Hash:
    """The hashes of the unique tuples of a source; two sources in one table have different hashes.

    A hash starts with the beginning of its tuple. So records that an API returns together (by day, by number) are
    neighbours in the unique index: a page of a thousand records changes a few dozen pages of the index, and not a
    thousand as with hashes alone.

    `ascii` writes texts and numbers the same way in every version of Python, and is quick.
    """

    def __init__(self, source: str) -> None:
        self._begun = blake2b(f"{source}\0".encode(), digest_size=16)

    def of(self, keys: Iterable[tuple[Cell, ...]]) -> list[bytes]:
        hashes, begun = [], self._begun.copy
        for text in map(str.encode, map(ascii, keys)):
            hashing = begun()
            hashing.update(text)
            hashes.append(text[1:BEGINNING] + hashing.digest())
        return hashes


def digests_of(rows: Iterable[tuple[Cell, ...]]) -> list[Cell]:
    """Return the digests of the cells of rows: they tell whether a record has changed."""
    return [blake2b(text, digest_size=16).digest() for text in map(str.encode, map(ascii, rows))]


def _excerpt(record: Any) -> str:
    try:
        text = compact(record)
    except (ValueError, TypeError, RecursionError):
        text = str(type(record))
    return text.replace("\0", "␀").encode("utf-8", "backslashreplace").decode()[:EXCERPT]
