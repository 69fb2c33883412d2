"""Records into rows: values are found, converted to the type of their column, and hashed.

A record that cannot be converted is rejected with the reason, and the others go on. A record of which nothing of the
unique tuple is there is rejected too: all such records would be one and the same.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Final

from ostinato.core.sources.definition import Source
from ostinato.core.sources.paths import Get, getter
from ostinato.core.tables import Cell, Column, ColumnType, Row

LARGEST: Final = 2**63 - 1
EXCERPT: Final = 200  # characters of a record that was rejected
TRUE: Final = frozenset({"true", "t", "yes", "y", "on", "1"})
FALSE: Final = frozenset({"false", "f", "no", "n", "off", "0"})
IN_MILLISECONDS: Final = 100_000_000_000  # since 1970: what is greater is not in seconds
PLAIN_UTC: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|\+00:00)", re.ASCII)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_sorted: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
).encode

ODD: Final = (ValueError, TypeError, ArithmeticError, RecursionError)

Convert = Callable[[Any], Cell]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that did not become a row, and why."""

    page: int
    record: int  # its place in the page, from 1
    field: str
    reason: str
    excerpt: str

    def __str__(self) -> str:
        return f"page {self.page}, record {self.record}, field {self.field}: {self.reason}"


class Mapper:
    """What turns the records of a source into rows: the mapped cells, and then the hash.

    Records are mapped column by column, which takes half the time of record by record. Should anything be odd about
    one of them, all are looked at one by one, to say which and why.
    """

    def __init__(self, source: Source) -> None:
        fields = source.response.fields
        self._fields = [(getter(each.source), CONVERT[each.column.type]) for each in fields]
        self._names = [each.source for each in fields]
        self._types = [each.column.type for each in fields]
        names = [each.column.name for each in fields]
        self._unique = [names.index(name) for name in source.response.unique]
        self._about = ", ".join(source.response.unique)
        self._source = source.name

    def rows(self, records: list[Any], page: int, rejected: list[Rejection], counted: int = 0) -> list[Row]:
        """The rows of records, in their order; what is rejected is added to the list. `counted` went before."""
        try:
            return self._at_once(records)
        except ODD:
            return list(self._one_by_one(records, page, rejected, counted))

    def _at_once(self, records: list[Any]) -> list[Row]:
        columns = [
            _column([get(record) for record in records], kind, convert)
            for (get, convert), kind in zip(self._fields, self._types, strict=True)
        ]
        keys = [columns[place] for place in self._unique]
        if None in keys[0]:
            raise ValueError("one may have nothing that tells it from others")
        source = self._source
        hashes = [
            blake2b(ascii((source, *key)).encode(), digest_size=16).hexdigest()
            for key in zip(*keys, strict=True)
        ]
        return list(zip(*columns, hashes, strict=True))

    def _one_by_one(
        self, records: list[Any], page: int, rejected: list[Rejection], counted: int
    ) -> Iterator[Row]:
        fields: list[tuple[Get, Convert]] = self._fields
        for number, record in enumerate(records, counted + 1):
            row: list[Cell] = []
            try:
                for get, convert in fields:
                    value = get(record)
                    row.append(None if value is None else convert(value))
            except ODD as error:
                rejected.append(self._rejection(page, number, self._names[len(row)], str(error), record))
                continue
            key = [row[place] for place in self._unique]
            if key.count(None) == len(key):
                reason = "none of the fields that tell it from others is there"
                rejected.append(self._rejection(page, number, self._about, reason, record))
                continue
            row.append(hash_of(self._source, key))
            yield tuple(row)

    @staticmethod
    def _rejection(page: int, number: int, field: str, reason: str, record: Any) -> Rejection:
        return Rejection(page, number, field, reason[:EXCERPT], _excerpt(record))


def _column(values: list[Any], kind: ColumnType, convert: Convert) -> list[Cell]:
    """A column of converted cells. Values that are of its type already are only looked at, all at once."""
    plain, are_good = WHOLE.get(kind, (None, None))
    if plain is None or are_good is None:
        return [None if value is None else convert(value) for value in values]
    there = [value for value in values if type(value) is plain]
    if not are_good(there):
        raise ValueError("one of them cannot stay as it is")
    if len(there) == len(values):
        return values
    return [value if type(value) is plain else None if value is None else convert(value) for value in values]


def hash_of(source: str, key: list[Cell]) -> str:
    """The hash of a unique tuple; of each source its own, so that two that share a table do not meet.

    `ascii` writes texts and numbers the same way in every version of Python, and is quick.
    """
    return blake2b(ascii((source, *key)).encode(), digest_size=16).hexdigest()


def less_overlap(greatest: Cell, column: Column, overlap: timedelta | float | None) -> str:
    """What to ask for, when this is the greatest value that is stored."""
    if isinstance(greatest, str) and column.type is ColumnType.TIMESTAMP:
        at = _instant(greatest) - (overlap if isinstance(overlap, timedelta) else timedelta(0))
        return at.isoformat().replace("+00:00", "Z")
    if isinstance(greatest, str) and column.type is ColumnType.DATE:
        day = _instant(greatest) - (overlap if isinstance(overlap, timedelta) else timedelta(0))
        return day.date().isoformat()
    if isinstance(greatest, int | float) and isinstance(overlap, float):
        rest = greatest - overlap
        return str(int(rest)) if column.type is ColumnType.INTEGER else repr(rest)
    return str(greatest)


# -- conversions; each is given anything but None


def _text(value: Any) -> str:
    if type(value) is not str:
        return _checked("true" if value is True else "false" if value is False else _compact(value))
    return value if value.isascii() and "\0" not in value else _checked(value)


def _checked(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL character, which databases refuse")
    text.encode()  # half of a character is a ValueError
    return text


def _integer(value: Any) -> int | None:
    if type(value) is str:
        if not value.strip():
            return None
        try:
            value = int(value)
        except ValueError:
            value = _number(value)
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number")
        value = int(value)
    if not isinstance(value, int):
        raise ValueError(f"{_shown(value)} is not a whole number")
    if not -LARGEST <= value <= LARGEST:
        raise ValueError(f"{_shown(value)} is too large")
    return int(value)


def _number(value: Any) -> float | None:
    if type(value) is str:
        if not value.strip():
            return None
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{_shown(value)} is not a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_shown(value)} is not a number")
    found = float(value)
    if not math.isfinite(found):
        raise ValueError(f"{value!r} is not a finite number")
    return found


def _boolean(value: Any) -> bool | None:
    if value is True or value is False:
        return bool(value)
    if type(value) is str and not value.strip():
        return None
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(f"{_shown(value)} is neither true nor false")


def _timestamp(value: Any) -> str | None:
    if type(value) is str:
        if not value.strip():
            return None
        if PLAIN_UTC.fullmatch(value):  # most are: half the cost
            datetime.fromisoformat(value)
            return f"{value[:10]}T{value[11:19]}.000000Z"
    return _instant(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _date(value: Any) -> str | None:
    if type(value) is str:
        text = value.strip()
        if not text:
            return None
        if len(text) == 10:
            return date.fromisoformat(text).isoformat()
        try:
            return datetime.fromisoformat(text).date().isoformat()  # the day that is written, in its own zone
        except ValueError:
            pass
    return _instant(value).date().isoformat()


def _instant(value: Any) -> datetime:
    """An instant from ISO 8601, from the form of e-mails and HTTP, or from seconds or milliseconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return EPOCH + timedelta(seconds=value / 1000 if abs(value) > IN_MILLISECONDS else value)
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is not an instant")
    text = value.strip()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = _other_instant(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)


def _other_instant(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError):
        pass
    try:
        return _instant(float(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{_shown(text)} is not an instant") from None


def _json(value: Any) -> str:
    text = _sorted(value)
    return _checked("\0" if "\\u0000" in text else text)


CONVERT: Final[dict[ColumnType, Convert]] = {
    ColumnType.TEXT: _text,
    ColumnType.INTEGER: _integer,
    ColumnType.NUMBER: _number,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.DATE: _date,
    ColumnType.JSON: _json,
}


def _are_texts(values: list[str]) -> bool:
    joined = "".join(values)
    if not joined.isascii():
        joined.encode()  # half of a character is a ValueError
    return "\0" not in joined


WHOLE: Final[dict[ColumnType, tuple[type[Any], Callable[[list[Any]], bool]]]] = {
    ColumnType.TEXT: (str, _are_texts),
    ColumnType.INTEGER: (
        int,
        lambda values: not values or (min(values) >= -LARGEST and max(values) <= LARGEST),
    ),
    ColumnType.NUMBER: (float, lambda values: math.isfinite(sum(values))),
    ColumnType.BOOLEAN: (bool, lambda values: True),
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _excerpt(record: Any) -> str:
    try:
        text = _compact(record)
    except (ValueError, TypeError, RecursionError):
        text = str(type(record))
    return text.replace("\0", "␀").encode("utf-8", "backslashreplace").decode()[:EXCERPT]
