"""Incremental fetch: the part of an API's records that a request asks for, and how far a source has read.

The state of a source is a cell of its cursor column. A run asks for records from the state on, less the lookback; the
bound is inclusive, and nothing is filtered here, since the keys of the table absorb what comes twice. The state
advances when a window or the whole listing is complete: to the end of the window, or to the greatest value that was
seen, and never beyond the beginning of the run. APIs are not sorted, unless the definition says so: with `order:
ascending` it advances with each page, and with `descending` the first page whose records are all older is the last one.
"""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from ostinato.core.errors import Invalid
from ostinato.features.sources.rules.converting import CONVERT
from ostinato.features.sources.rules.definition import Incremental, Order
from ostinato.features.sources.rules.paging import PageStep, TimeWindow
from ostinato.features.sources.rules.tables import Cell, ColumnType

TIMES: Final = (ColumnType.TIMESTAMP, ColumnType.DATE)
SHORTEST: Final = timedelta(seconds=1)  # of a window that is divided
DAY: Final = timedelta(days=1)
EPOCHS: Final = {"epoch": 1, "epoch_ms": 1000, "epoch_us": 1_000_000}


@dataclass(frozen=True, slots=True)
class Advance:
    """The progress of a run after a page: the next page, and the new state of the source, if it advances."""

    following: PageStep | None
    state: Cell = None


def read_cell(value: Any, incremental: Incremental) -> Cell:
    """Convert a value to a cell of the cursor column; ValueError if that is impossible."""
    return CONVERT[incremental.column.type](value)


def first_window(incremental: Incremental, state: Cell, began: datetime) -> TimeWindow | None:
    """Return what the first request of a run asks for; None if the state has passed the end."""
    start = incremental.start_cell if state is None else _less(state, incremental)
    until = until_of(incremental, began)
    if start is not None and until is not None and start > until:  # type: ignore[operator]
        return None
    return TimeWindow(start, _end_of(incremental, start, until, incremental.window), state)


def until_of(incremental: Incremental, began: datetime) -> Cell:
    """Return the end of the last window: the given end, or the beginning of the run; None without such a bound."""
    now = _cell_of(began, incremental) if incremental.column.type in TIMES else None
    if incremental.end_cell is None or now is None:
        return incremental.end_cell if incremental.end_cell is not None else now
    return min(incremental.end_cell, now)


def advance(
    incremental: Incremental, step: PageStep, following: PageStep | None, seen: int, began: datetime
) -> Advance:
    """Return the progress after a page; `following` is the next page of the same window, None after its last one."""
    window = step.window
    assert window is not None
    until = until_of(incremental, began)
    if following is not None:
        ascending = incremental.order is Order.ASCENDING
        return Advance(following, _greater(_least(step.greatest, until), window.state) if ascending else None)
    if incremental.split_at is not None and seen >= incremental.split_at:
        return Advance(PageStep(1, window=_halved(incremental, window)))
    if window.end is None or not incremental.end_param:
        return Advance(None, _greater(_least(step.greatest, until), window.state))
    state = _greater(window.end, window.state)  # the lookback may have begun long before it
    if window.end == until:
        return Advance(None, state)
    size = _size(window.start, window.end)
    wanted = min(incremental.window or size, 2 * size) if incremental.split_at else incremental.window
    end = _end_of(incremental, window.end, until, wanted)
    return Advance(PageStep(1, window=TimeWindow(window.end, end, window.state)), state)


def is_older(incremental: Incremental, window: TimeWindow, greatest: Cell) -> bool:
    """Return True if all records of a page are older than the window, and the API sorts the newest first."""
    if incremental.order is not Order.DESCENDING or window.start is None or greatest is None:
        return False
    return bool(greatest < window.start)  # type: ignore[operator]


def bounds_of(incremental: Incremental | None, window: TimeWindow | None) -> list[tuple[str, str | int]]:
    """Return the values that ask for a window, by place."""
    if window is None or incremental is None:
        return []
    found: list[tuple[str, str | int]] = []
    if window.start is not None:
        found.append((incremental.param, written(window.start, incremental)))
    if window.end is not None and incremental.end_param:
        found.append((incremental.end_param, written(window.end, incremental)))
    return found


def written(cell: Cell, incremental: Incremental) -> str | int:
    """Write a bound as the API wants it."""
    kind, form = incremental.column.type, incremental.format
    if kind not in TIMES or incremental.by_rows:
        return cell if type(cell) is int else str(cell)
    at = _instant(cell)
    if form in EPOCHS:
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * EPOCHS[form] // 1_000_000
    if form == "date" or (not form and kind is ColumnType.DATE):
        return at.date().isoformat()
    if form in ("", "iso"):
        return at.isoformat().replace("+00:00", "Z")
    return at.strftime(form)


# -- cells


def _instant(cell: Cell) -> datetime:
    at = datetime.fromisoformat(str(cell))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _cell_of(at: datetime, incremental: Incremental) -> Cell:
    return CONVERT[incremental.column.type](at.astimezone(UTC).isoformat())


def _less(state: Cell, incremental: Incremental) -> Cell:
    """Return the state less the lookback."""
    back = incremental.overlap
    if isinstance(back, timedelta):
        try:
            return _cell_of(_instant(state) - back, incremental)
        except OverflowError:
            return state
    if isinstance(back, float) and isinstance(state, int | float):
        return int(state - back) if incremental.column.type is ColumnType.INTEGER else state - back
    return state


def _end_of(incremental: Incremental, start: Cell, until: Cell, size: timedelta | None) -> Cell:
    """Return the end of a window of that size; without one it ends with the run."""
    if size is None or start is None:
        return until
    try:
        return min(_cell_of(_instant(start) + size, incremental), until)  # type: ignore[type-var]
    except OverflowError:
        return until


def _size(start: Cell, end: Cell) -> timedelta:
    return DAY if start is None or end is None else _instant(end) - _instant(start)


def _halved(incremental: Incremental, window: TimeWindow) -> TimeWindow:
    """Return the first half of a window that has too many records."""
    half = _size(window.start, window.end) / 2
    shortest = SHORTEST if incremental.column.type is ColumnType.TIMESTAMP else DAY
    if window.start is None or half < shortest:
        raise Invalid(
            f"incremental.splitAt: there are {incremental.split_at} records or more between {window.start!s} and "
            f"{window.end!s}, and that cannot be divided further."
        )
    half = timedelta(days=half // DAY) if shortest is DAY else timedelta(seconds=half // SHORTEST)
    return replace(window, end=_cell_of(_instant(window.start) + half, incremental))


def _least(one: Cell, other: Cell) -> Cell:
    return one if one is None or other is None else min(one, other)


def _greater(one: Cell, other: Cell) -> Cell:
    """Return the new state, if it is greater than the old one."""
    return None if one is None or (other is not None and one <= other) else one  # type: ignore[operator]


def check_date_format(text: str, what: str) -> str:
    """Check a format of dates: a word, or directives such as %d/%m/%Y."""
    if text in (*EPOCHS, "iso", "date", ""):
        return text
    if "%" not in text or date(2001, 2, 3).strftime(text) == text:
        raise Invalid(f"{what} must be one of iso, date, {', '.join(EPOCHS)}, or directives such as %d/%m/%Y.")
    return text
