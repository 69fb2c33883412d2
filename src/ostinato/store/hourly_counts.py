"""Executions by the hour in which they were queued, for charts of days and weeks.

A request for a page must not count a million rows. A past hour without live executions does not change, so the sweeper
counts it once and stores the count. (An hour that is a day old is stored in any case, without its running executions.)
A query reads the stored hours and counts the missing ones, the newest first, up to `MOST_COUNTED` rows. Older hours are
unknown until the sweeper has counted them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ostinato.core.ids import first_of
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Hour
from ostinato.store.adapt import from_micros, to_uuid
from ostinato.store.database import Database, Tx

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
REACH: Final = timedelta(days=31)  # the oldest hours that are still counted later
STORED_FOR: Final = timedelta(days=400)
MOST_COUNTED: Final = 40_000
ALL: Final = 2**62
LOOK_EVERY: Final = timedelta(minutes=5)
HOURS_OF_A_STEP: Final = 48  # hours
RESULTS: Final = tuple(OutcomeKind)


class Hours:
    """Table of hours, and counts of the hours that it lacks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at: datetime | None = None

    def between(self, since: datetime, now: datetime) -> list[Hour]:
        """Return every hour from the one of `since` to the one of `now`."""
        first, last = beginning(since), beginning(now)
        with self._database.read() as tx:
            stored = _stored(tx, first)
            missing = [hour for hour in _grid(first, last) if hour not in stored]
            counted = _counted(tx, missing[0], last + HOUR, MOST_COUNTED) if missing else {}
        found = {**counted, **stored}
        return [Hour(hour, found.get(hour)) for hour in _grid(first, last)]

    def keep(self, now: datetime) -> int:
        """Count some finished hours, the newest first, and store them; return their number. Calls are short: repeat
        them until all hours are counted, also after an upgrade."""
        if self._looked_at is not None and timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            return 0
        first, last = beginning(now - REACH), beginning(now) - HOUR
        with self._database.read() as tx:
            stored = _stored(tx, first)
            missing = [hour for hour in _grid(first, last) if hour not in stored]
            live = _oldest_live(tx, missing[0]) if missing else None
            final = [hour for hour in missing if live is None or hour + HOUR <= live or now - hour > DAY]
            some = {hour: _counted(tx, hour, hour + HOUR, ALL)[hour] for hour in final[-HOURS_OF_A_STEP:]}
        if len(some) == len(final):
            self._looked_at = now
        if some:
            with self._database.write() as tx:
                tx.run("keep_hours", [(hour, *map(counts.__getitem__, RESULTS)) for hour, counts in some.items()])
                tx.run("forget_hours", before=now - STORED_FOR)
        return len(some)


def beginning(at: datetime) -> datetime:
    """Return the beginning of the hour of an instant."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _grid(first: datetime, last: datetime) -> list[datetime]:
    return [first + number * HOUR for number in range((last - first) // HOUR + 1)]


def _stored(tx: Tx, first: datetime) -> dict[datetime, dict[OutcomeKind, int]]:
    return {
        from_micros(hour): dict(zip(RESULTS, counts, strict=True))
        for hour, *counts in tx.rows("kept_hours", since=first)
    }


def _counted(tx: Tx, first: datetime, end: datetime, most: int) -> dict[datetime, dict[OutcomeKind, int]]:
    """Count by hour, empty hours included; beyond `most` rows the oldest hours are left out."""
    found = tx.rows("count_by_hour", from_id=first_of(first), to_id=first_of(end), most=most)
    counted: dict[datetime, dict[OutcomeKind, int]] = {}
    for hour, result, count in found:
        counted.setdefault(_hour(hour), dict.fromkeys(RESULTS, 0))[OutcomeKind(result)] = count
    reached = first
    if sum(count for _, _, count in found) >= most:
        reached = min(counted) + HOUR  # its last hour may be incomplete
    return {hour: counted.get(hour, dict.fromkeys(RESULTS, 0)) for hour in _grid(reached, end - HOUR)}


def _hour(number: Any) -> datetime:
    return from_micros(int(number) * 3_600_000_000)


def _oldest_live(tx: Tx, first: datetime) -> datetime | None:
    """Return the time at which the oldest live execution was queued."""
    found: Sequence[Any] | None = tx.row("oldest_live", from_id=first_of(first))
    if found is None:
        return None
    return from_micros((to_uuid(found[0]).int >> 80) * 1000)
