"""Queries of the dashboard: recent history of many jobs, their next due times, and hourly counts."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.encoding import policies_of, schedule_of
from ostinato.core.model import Execution, Live, first_of
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import Policies
from ostinato.core.read_models import Hour, Ran
from ostinato.core.schedule import Schedule
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_uuid


@dataclass(frozen=True, slots=True)
class Course:
    """A schedule, its policies, its next time, and the number of jobs that share them."""

    schedule: Schedule
    policies: Policies
    next_due_at: datetime
    jobs: int
    text: str  # the schedule as stored


RAN: Final = rows.Shape(Ran)


class Board:
    """Questions of the dashboard."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest_runs(self, ids: Sequence[UUID], limit: int) -> dict[UUID, list[Ran]]:
        """Return the newest ended executions of each of these jobs, the newest last."""
        found: dict[UUID, list[Ran]] = defaultdict(list)
        if ids:
            with self._database.read() as tx:
                for row in tx.rows("newest_of_each", ids=list(ids), limit=limit):
                    ran = RAN.of(row)
                    found[ran.job_id].append(ran)
        return found

    def soonest(self, limit: int) -> list[UUID]:
        """List the jobs that are due next."""
        with self._database.read() as tx:
            return [to_uuid(job_id) for (job_id,) in tx.rows("soonest", limit=limit)]

    def courses(self, until: datetime) -> list[Course]:
        """List due times before an instant; jobs with the same schedule and policies are grouped."""
        with self._database.read() as tx:
            found = tx.rows("schedules_to_come", until=until)
        return [
            Course(schedule_of(schedule), policies_of(policies), from_micros(due), jobs, schedule)
            for schedule, policies, due, jobs in found
        ]

    def jobs_on(self, courses: Collection[Course], until: datetime) -> Iterator[tuple[UUID, Course]]:
        """Yield the jobs with these schedules that are due before an instant, the earliest first."""
        with self._database.read() as tx:
            found = tx.rows("jobs_to_come", until=until, schedules=sorted({course.text for course in courses}))
        for job_id, schedule, policies, due in found:
            one = Course(schedule_of(schedule), policies_of(policies), from_micros(due), 1, schedule)
            yield to_uuid(job_id), one

    def running(self, limit: int) -> tuple[list[Live], int]:
        """Return some running executions, and the number of all."""
        with self._database.read() as tx:
            ((_, count),) = tx.rows("count_live", task=None)
            return [rows.LIVE.of(row) for row in tx.rows("running_some", limit=limit)], int(count)

    def failed(self, limit: int) -> list[Execution]:
        """List the latest failed executions, the newest first."""
        with self._database.read() as tx:
            return _executions(tx, tx.rows("failed_some", limit=limit))

    def queued_between(self, since: datetime, until: datetime, limit: int) -> list[Execution]:
        """List executions that were queued between two instants and have ended, the newest first."""
        with self._database.read() as tx:
            return _executions(
                tx, tx.rows("queued_between", from_id=first_of(since), to_id=first_of(until), limit=limit)
            )


def _executions(tx: Tx, ids: Sequence[rows.Row]) -> list[Execution]:
    """Read the executions with these ids, the newest first."""
    found = tx.rows("executions_by_id", ids=[to_uuid(each) for (each,) in ids]) if ids else []
    return sorted(map(rows.EXECUTION.of, found), key=lambda execution: execution.id, reverse=True)


# -- Executions by the hour in which they were queued, for charts of days and weeks.
#
# A request for a page must not count a million rows. A past hour without live executions does not change, so the
# sweeper
# counts it once and stores the count. (An hour that is a day old is stored in any case, without its running
# executions.)
# A query reads the stored hours and counts the missing ones, the newest first, up to `MOST_COUNTED` rows. Older hours
# are
# unknown until the sweeper has counted them.

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
