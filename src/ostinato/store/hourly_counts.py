"""Executions by the hour in which they were queued, for charts of days and weeks.

Nobody counts a million rows while somebody waits for a page. An hour that is over and of which nothing is live any more
does not change: the sweeper counts it once and keeps it (an hour that is a day old is kept in any case, without what
still runs of it). Who asks reads the kept hours and counts the few that are missing, the newest first, up to
`MOST_COUNTED` rows; hours beyond that are unknown until the sweeper has come to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ostinato.core.ids import first_of
from ostinato.core.model import Result
from ostinato.store.adapt import from_micros, to_uuid
from ostinato.store.database import Database, Tx

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
REACH: Final = timedelta(days=31)  # hours that are counted afterwards, if nobody was there to
KEPT_FOR: Final = timedelta(days=400)
MOST_COUNTED: Final = 40_000
ALL: Final = 2**62
LOOK_EVERY: Final = timedelta(minutes=5)
HOURS_OF_A_STEP: Final = 48  # hours
RESULTS: Final = tuple(Result)


@dataclass(frozen=True, slots=True)
class Hour:
    """The executions queued in the hour from `at`, counted by result; None: not counted yet."""

    at: datetime
    ended: Mapping[Result, int] | None


class Hours:
    """The table of hours, and what is not in it yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looked_at: datetime | None = None

    def between(self, since: datetime, now: datetime) -> list[Hour]:
        """Every hour from the one of `since` to the one of `now`."""
        first, last = beginning(since), beginning(now)
        with self._database.read() as tx:
            kept = _kept(tx, first)
            missing = [hour for hour in _grid(first, last) if hour not in kept]
            counted = _counted(tx, missing[0], last + HOUR, MOST_COUNTED) if missing else {}
        found = {**counted, **kept}
        return [Hour(hour, found.get(hour)) for hour in _grid(first, last)]

    def keep(self, now: datetime) -> int:
        """Count some of what has become final, the newest first; how many hours were kept. May be called often, and
        after an upgrade must be, until all of a long history is counted: no call takes long."""
        if self._looked_at is not None and timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            return 0
        first, last = beginning(now - REACH), beginning(now) - HOUR
        with self._database.read() as tx:
            kept = _kept(tx, first)
            missing = [hour for hour in _grid(first, last) if hour not in kept]
            live = _oldest_live(tx, missing[0]) if missing else None
            final = [hour for hour in missing if live is None or hour + HOUR <= live or now - hour > DAY]
            some = {hour: _counted(tx, hour, hour + HOUR, ALL)[hour] for hour in final[-HOURS_OF_A_STEP:]}
        if len(some) == len(final):
            self._looked_at = now
        if some:
            with self._database.write() as tx:
                tx.run(
                    "keep_hours", [(hour, *map(counts.__getitem__, RESULTS)) for hour, counts in some.items()]
                )
                tx.run("forget_hours", before=now - KEPT_FOR)
        return len(some)


def beginning(at: datetime) -> datetime:
    """Of the hour in which an instant lies."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _grid(first: datetime, last: datetime) -> list[datetime]:
    return [first + number * HOUR for number in range((last - first) // HOUR + 1)]


def _kept(tx: Tx, first: datetime) -> dict[datetime, dict[Result, int]]:
    return {
        from_micros(hour): dict(zip(RESULTS, counts, strict=True))
        for hour, *counts in tx.rows("kept_hours", since=first)
    }


def _counted(tx: Tx, first: datetime, end: datetime, most: int) -> dict[datetime, dict[Result, int]]:
    """By hour, those without any too; if there are more than `most`, the oldest hours are left out."""
    found = tx.rows("count_by_hour", from_id=first_of(first), to_id=first_of(end), most=most)
    counted: dict[datetime, dict[Result, int]] = {}
    for hour, result, count in found:
        counted.setdefault(_hour(hour), dict.fromkeys(RESULTS, 0))[Result(result)] = count
    reached = first
    if sum(count for _, _, count in found) >= most:
        reached = min(counted) + HOUR  # of the hour that it came to last, it may not have counted all
    return {hour: counted.get(hour, dict.fromkeys(RESULTS, 0)) for hour in _grid(reached, end - HOUR)}


def _hour(number: Any) -> datetime:
    return from_micros(int(number) * 3_600_000_000)


def _oldest_live(tx: Tx, first: datetime) -> datetime | None:
    """Return the time at which the oldest live execution was queued."""
    found: Sequence[Any] | None = tx.row("oldest_live", from_id=first_of(first))
    if found is None:
        return None
    return from_micros((to_uuid(found[0]).int >> 80) * 1000)
