"""Conversion of values to the cells of a type: the forms of numbers, days and instants that APIs use.

Most values of a column have their type already, or are alike. So a column is checked as a whole, and only other values
are converted one by one.
"""

import json
import math
import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import NoneType
from typing import Any, Final

from ostinato.core.model import EPOCH
from ostinato.features.sources.rules.tables import Cell, ColumnType, MappedColumn

LARGEST: Final = 2**63 - 1
TRUE: Final = frozenset({"true", "t", "yes", "y", "on", "1"})
FALSE: Final = frozenset({"false", "f", "no", "n", "off", "0"})
DIGITS: Final = re.compile(r"(?P<whole>-?[0-9]+)(?P<fraction>\.[0-9]*)?")
CALENDAR: Final = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d"}  # by the number of digits: a year, a month, a day
SINCE_1970: Final = {
    **dict.fromkeys((9, 10), "seconds"),
    **dict.fromkeys((12, 13), "milliseconds"),
    **dict.fromkeys((15, 16), "microseconds"),
}
SECONDS_IN_UTC: Final = re.compile(r"(?:....-..-..T..:..:..(?:Z|\+00:00)\n)*+")

compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_sorted: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True).encode

Convert = Callable[[Any], Cell]


def cells_of(values: list[Any], kind: ColumnType) -> list[Cell]:
    """Convert a column. Values that already have its type are only checked, all at once."""
    convert, types = CONVERT[kind], set(map(type, values))
    if kind is ColumnType.DATE and types == {str}:
        known = {value: convert(value) for value in set(values)}  # many records of a page have the same value
        return [known[value] for value in values]
    if kind is ColumnType.TIMESTAMP and types == {str} and (instants := _all_in_utc(values)):
        return instants
    plain, are_good = WHOLE.get(kind, (None, None))
    if plain not in types or are_good is None:
        return [None if value is None else convert(value) for value in values]
    there = values if len(types) == 1 else [value for value in values if type(value) is plain]
    if not are_good(there):
        raise ValueError("one value cannot stay as it is")
    if types <= {plain, NoneType}:
        return values
    return [value if type(value) is plain else None if value is None else convert(value) for value in values]


def less_overlap(greatest: Cell, column: MappedColumn, overlap: timedelta | float | None) -> str:
    """Return the value from which to fetch: the greatest stored one, less the overlap."""
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


# -- conversions; none is called with None


def _text(value: Any) -> str:
    if type(value) is not str:
        return _checked("true" if value is True else "false" if value is False else compact(value))
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
    if type(value) is str and not value.strip():
        return None
    return _instant(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _all_in_utc(values: list[str]) -> list[Cell] | None:
    """Convert many timestamps, if all are whole seconds in UTC, as most are: a fifth of the cost."""
    if not SECONDS_IN_UTC.fullmatch("\n".join([*values, ""])):
        return None
    try:
        deque(map(datetime.fromisoformat, values), 0)  # they have the form; does the day exist?
    except ValueError:
        return None
    return [value[:19] + ".000000Z" for value in values]


def _date(value: Any) -> str | None:
    if type(value) is str:
        text = value.strip()
        if not text:
            return None
        if not DIGITS.fullmatch(text):
            if len(text) == 10:
                return date.fromisoformat(text).isoformat()
            with suppress(ValueError):  # the day that is written, in its own zone
                return datetime.fromisoformat(text).date().isoformat()
    return _instant(value).date().isoformat()


def _instant(value: Any) -> datetime:
    """Read an instant: ISO 8601, the form of e-mails and HTTP, or digits."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:f}" if isinstance(value, float) else str(value)
    if type(value) is not str:
        raise ValueError(f"{_shown(value)} is not an instant")
    text = value.strip()
    # Before ISO 8601: Python reads 1611111112000 as 20:00 on 11 November 1611.
    if found := DIGITS.fullmatch(text):
        return _of_digits(found)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = _of_email(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)


def _of_email(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError):
        raise ValueError(f"{_shown(text)} is not an instant") from None


def _of_digits(found: re.Match[str]) -> datetime:
    """Read a year, a month, a day, or a time since 1970: the number of digits says which."""
    text, whole, is_whole = found.group(), found["whole"], not (found["fraction"] or "").strip(".0")
    digits = len(whole.lstrip("-"))
    if unit := SINCE_1970.get(digits):
        return EPOCH + timedelta(**{unit: int(whole) if is_whole else float(text)})
    if is_whole and digits == len(whole) and digits in CALENDAR:
        return datetime.strptime(whole, CALENDAR[digits]).replace(tzinfo=UTC)
    raise ValueError(
        f"{_shown(text)} is not an instant: digits are a year (4), a month (6), a day (8), or seconds (9-10),"
        " milliseconds (12-13) or microseconds (15-16) since 1970"
    )


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
