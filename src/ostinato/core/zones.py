"""Time zones: the wall time of an instant, and the instants of a wall time.

Zone data comes from the `tzdata` package and nowhere else, so that all machines agree whatever their system
has installed. An instant is an aware datetime in UTC; a *wall time* is a naive one, as a clock in the zone
shows it.

Most wall times happen once. When clocks go forward there is a *gap*: wall times that never happen. When
they go back there is a *fold*: wall times that happen on two *passes*. Python tells them apart by asking for
the offset of a wall time twice (PEP 495): `fold=0` answers with the offset before the change, `fold=1` with
the one after it.

No zone changes its offset twice within `CALM` (a test goes through them all), and each change is on a whole
second. So if two instants at most that far apart have the same offset, it holds for all instants between them.
"""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import tzdata

from ostinato.core.duration import DAY, SECOND
from ostinato.core.errors import Invalid

CALM = 6 * DAY
NO_PLACES = frozenset({"Factory", "localtime", "posixrules"})  # their meaning depends on the machine


@cache
def zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, such as `Europe/Paris`."""
    if name not in zone_names():  # this check also keeps `../../etc/passwd` from being opened
        raise Invalid(f"There is no time zone {name[:60]!r}; {_advice(name)}")
    from importlib.resources import files

    with files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@cache
def zone_names() -> frozenset[str]:
    """Return every name that `zone` knows."""
    from importlib.resources import files

    return frozenset(files(tzdata).joinpath("zones").read_text().split()) - NO_PLACES


def zone_data_version() -> str:
    """Return the IANA release of the zone data, such as `2026f`: when it changes, due times may change."""
    return tzdata.IANA_VERSION


def offset_at(at: datetime, tz: ZoneInfo) -> timedelta:
    """Return the offset of the wall clock from UTC at an instant."""
    return _offset(at.astimezone(tz))


def wall_at(at: datetime, tz: ZoneInfo) -> datetime:
    """Return the wall clock's time at an instant."""
    return at.astimezone(tz).replace(tzinfo=None)


def wall_span(at: datetime, tz: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the wall time of an instant by the offset after, and by the offset before, a fold it lies in.

    Wall times before the first are over on every pass; those after the second are to come on every pass.
    """
    local, clock = at.astimezone(tz), at.replace(tzinfo=None)
    return clock + _offset(local.replace(fold=1)), clock + _offset(local.replace(fold=0))


def passes(wall: datetime, tz: ZoneInfo) -> tuple[datetime, ...]:
    """Return the instants at which the clock shows a wall time: one; none in a gap; two in a fold, in order."""
    before, after = _offsets_around(wall, tz)
    if before == after:
        return (_instant(wall, before),)
    if before < after:
        return ()
    return _instant(wall, before), _instant(wall, after)


def gap_end(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the first instant after the gap in which a wall time lies."""
    before, after = _offsets_around(wall, tz)
    return change_between(_instant(wall, after), _instant(wall, before), tz)


def change_between(after: datetime, until: datetime, tz: ZoneInfo) -> datetime:
    """Return the instant in `(after, until]` from which the later offset holds; both are on whole seconds."""
    settled = offset_at(until, tz)
    seconds = range(1, (until - after) // SECOND + 1)
    found = bisect_left(seconds, True, key=lambda n: offset_at(after + n * SECOND, tz) == settled)
    return after + seconds[found] * SECOND


def _offsets_around(wall: datetime, tz: ZoneInfo) -> tuple[timedelta, timedelta]:
    return _offset(wall.replace(tzinfo=tz, fold=0)), _offset(wall.replace(tzinfo=tz, fold=1))


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or timedelta()


def _instant(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC, fold=0)


def _advice(name: str) -> str:
    from difflib import get_close_matches  # for mistakes only

    by_lower = {known.lower(): known for known in zone_names()}
    by_city = {known.lower().rpartition("/")[2]: known for known in sorted(zone_names())}
    asked = name[:60].lower().replace(" ", "_")
    close = get_close_matches(asked, by_lower, n=1) or get_close_matches(asked, by_city, n=1)
    if not close:
        return "use a name such as Europe/Paris or UTC."
    return f"did you mean {by_lower.get(close[0]) or by_city[close[0]]}?"
