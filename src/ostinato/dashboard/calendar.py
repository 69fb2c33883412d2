"""The calendar: past executions and future due times by the hour, in the viewer's time zone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from starlette.responses import Response

from ostinato.core.forecast import Grid
from ostinato.core.outcome import FAILURES
from ostinato.core.read_models import Hour
from ostinato.core.times import passes, zone
from ostinato.dashboard import page_request
from ostinato.dashboard.formatting import many
from ostinato.dashboard.page_request import PageRequest, get
from ostinato.service.dashboard import ClockChange
from ostinato.service.paging import allowance

ZERO: Final = timedelta(0)
HOUR: Final = timedelta(hours=1)
QUARTER: Final = timedelta(minutes=15)
DAY: Final = timedelta(days=1)
AHEAD: Final = 7
BACK: Final = 30
SHADES: Final = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """An hour of local time, which a day has once, twice (a fold) or never (a gap)."""

    starts: Sequence[datetime]
    count: int | None
    failed: int = 0
    shade: int = 0
    title: str = ""
    is_over: bool = False
    marks: str = ""

    @property
    def word(self) -> str:
        return "" if not self.count else _short(self.count)


@dataclass(frozen=True, slots=True)
class Row:
    day: date
    cells: Sequence[Cell]


def show(visit: PageRequest) -> Response:
    """Show the next or the past days, and the jobs or executions of a selected hour."""
    past = page_request.word(visit, "show") == "past"
    rows, changes, complete = (_past(visit), (), True) if past else _coming(visit)
    chosen, expired = _hour_asked(visit), allowance()
    return visit.page(
        "calendar.html",
        past=past,
        rows=rows,
        chosen=chosen,
        due=visit.service.board.due_within(chosen, chosen + HOUR, expired) if chosen and not past else [],
        ran=visit.service.board.queued_within(chosen, chosen + HOUR) if chosen and past else [],
        named=visit.service.board.some,
        until=None if chosen is None else chosen + HOUR,
        changes=changes,
        complete=complete and not expired(),
    )


def _hour_asked(visit: PageRequest) -> datetime | None:
    text = page_request.word(visit, "hour")
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None


def _coming(visit: PageRequest) -> tuple[list[Row], Sequence[ClockChange], bool]:
    days = _days(visit, range(AHEAD))
    begin, end = _midnight(days[0], visit.zone), _midnight(days[-1] + DAY, visit.zone)
    # Count by local hours; in a zone that changes by half an hour, by quarters of an hour.
    step = HOUR if (end - begin) % HOUR == ZERO else QUARTER
    found = visit.service.board.ahead(Grid(begin, step, (end - begin) // step), allowance())
    counts: dict[datetime, int | None] = {}
    starts = {start for day in days for hour in range(24) for start in _starts(day, hour, visit.zone)}
    hour = begin
    for at, count in found.counts:
        hour = at if at in starts else hour
        counts[hour] = (counts.get(hour) or 0) + count
    return _rows(visit, days, counts, {}, is_coming=True), found.changes, found.complete


def _past(visit: PageRequest) -> list[Row]:
    days = _days(visit, range(0, -BACK, -1))
    hours = visit.service.board.hours(_midnight(days[-1], visit.zone))
    counts = {hour.at: _sum(hour) for hour in hours}
    failed = {hour.at: _failed(hour) for hour in hours}
    return _rows(visit, days, counts, failed, is_coming=False)


def _sum(hour: Hour) -> int | None:
    return None if hour.ended is None else sum(hour.ended.values())


def _failed(hour: Hour) -> int:
    ended = hour.ended or {}
    return sum(ended.get(result, 0) for result in FAILURES)


def _days(visit: PageRequest, which: range) -> list[date]:
    today = visit.now.astimezone(zone(visit.zone)).date()
    return [today + number * DAY for number in which]


def _midnight(day: date, name: str) -> datetime:
    """Return the first instant of a day; if clocks jump at midnight, the first one after the gap."""
    for minute in range(0, 24 * 60, 15):
        shown = passes(datetime.combine(day, time()) + timedelta(minutes=minute), zone(name))
        if shown:
            return shown[0]
    return datetime.combine(day, time(), UTC)


def _rows(
    visit: PageRequest,
    days: Sequence[date],
    counts: Mapping[datetime, int | None],
    failed: Mapping[datetime, int],
    *,
    is_coming: bool,
) -> list[Row]:
    most = max((count for count in counts.values() if count), default=0)
    word = "due time" if is_coming else "execution"
    return [
        Row(day, [_cell(visit, day, hour, counts, failed, most, word, is_coming) for hour in range(24)]) for day in days
    ]


def _cell(
    visit: PageRequest,
    day: date,
    hour: int,
    counts: Mapping[datetime, int | None],
    failed: Mapping[datetime, int],
    most: int,
    word: str,
    is_coming: bool,
) -> Cell:
    starts = _starts(day, hour, visit.zone)
    label = f"{day:%a %d %b}, {hour:02}:00"
    if not starts:
        return Cell((), 0, title=f"{label}: the clock skips this hour", marks="gone")
    found = [_at(counts, start) for start in starts]
    bad = sum(_at(failed, start) or 0 for start in starts)
    known = [count for count in found if count is not None]
    count = sum(known) if known else None
    over = starts[-1] + HOUR <= visit.now if is_coming else starts[0] > visit.now
    title = f"{label}: {'not counted yet' if count is None else many(count, word)}"
    title += f", {bad:,} failed" if bad else ""
    title += " (the clock shows this hour twice)" if len(starts) > 1 else ""
    marks = " ".join(["twice"] * (len(starts) > 1) + ["bad"] * bool(bad) + ["past"] * over)
    return Cell(starts, count, bad, _shade(count or 0, most), title, over, marks)


def _starts(day: date, hour: int, name: str) -> tuple[datetime, ...]:
    """Return the instants at which a wall hour begins: one, two or none."""
    return passes(datetime.combine(day, time(hour)), zone(name))


def _at(counts: Mapping[datetime, int | None], start: datetime) -> int | None:
    """Find the count of an hour. Counts are by hours of UTC; half-hour zones use the hour of their start."""
    found = counts.get(start)
    return found if found is not None else counts.get(start.replace(minute=0))


def _shade(count: int, most: int) -> int:
    """Return a shade from 0 to 5."""
    return -(-count * SHADES // most) if count else 0


def _short(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 1_000_000 else f"{count / 1_000_000:.0f}M"


ROUTES: Final = (get("/calendar", show),)
