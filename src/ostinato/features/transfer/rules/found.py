"""What a reader finds in another system: jobs in our words, their state, and their due times by its own rule.

A reader never decides what is written. It says what a job is there (`Found`), what changes by design (`notes`), and
what changes its meaning (`changes`: such a job arrives paused). The rest is `Unmovable`, with the reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, zip_longest
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from ostinato.core import cron
from ostinato.core.errors import NOT_READABLE, Invalid
from ostinato.core.lifecycle import FormerState, PastRun
from ostinato.core.schedule import Cron, Schedule, preview
from ostinato.core.times import DAY, offset_at, passes, wall_at, zone

TIMES: Final = 10  # due times that are compared
SLIP: Final = timedelta(milliseconds=1)  # stores round to milliseconds
HALF_A_YEAR: Final = 182 * DAY
MOST_IN_A_NIGHT: Final = 5000
MOST_BYTES: Final = 500_000  # of the runs of one job in a request

Times = Callable[[datetime, int], Sequence[datetime]]  # the next due times after an instant


def never(after: datetime, n: int) -> Sequence[datetime]:
    """Return no due time: the job is over, or runs only when it is asked to."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job of another system."""

    ref: str  # what that system calls it
    title: str  # what it does
    schedule: str  # as it is written there
    job: Mapping[str, Any] | None = None  # in the words of `POST /jobs`
    source: Mapping[str, Any] | None = None  # in the words of `source apply`
    id: UUID | None = None
    state: FormerState = FormerState()
    times: Times = never
    from_now: bool = False  # the times count from now, or from a resume: only their distances can be compared
    notes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        return str((self.job or {}).get("task") or ("fetch" if self.source else "crawl"))

    def changed(self, names: Mapping[str, str], queue: str | None) -> "Found":
        """Return the job with the new name of its task, and in another queue."""
        if self.job is None:
            return self if queue is None else replace(self, source={**(self.source or {}), "queue": queue})
        other = {"task": names[self.task]} if self.task in names else {}
        return replace(self, job={**self.job, **other, **({} if queue is None else {"queue": queue})})


@dataclass(frozen=True, slots=True)
class Unmovable:
    """Something that cannot become a job, and why."""

    ref: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that was read from a system."""

    jobs: Sequence[Found]
    refused: Sequence[Unmovable] = ()
    notes: Sequence[str] = ()  # sentences about the whole


# -- due times by the rule of the other system


def every(period: timedelta, next_at: datetime | None) -> Times:
    """Return the times of an interval that counts from its next time; without one, from now."""

    def times(after: datetime, n: int) -> Sequence[datetime]:
        first = after + period if next_at is None else next_at
        if first <= after:
            first += ((after - first) // period + 1) * period
        return [first + count * period for count in range(n)]

    return times


def by(schedule: Schedule) -> Times:
    """Return the times of a schedule that means the same here."""
    return lambda after, n: preview(schedule, after, after, n)


def shifted(schedule: Cron, *, both_passes: bool, in_gap: bool = True) -> Times:
    """Return the times of a cron expression by the wall clock, as most schedulers count them.

    Of the times in a gap the first one counts, shifted by the gap, or none does (`in_gap`). In a fold all count on the
    first pass only, or on `both_passes`.
    """
    pattern, tz = cron.parse(schedule.expression), zone(schedule.timezone)

    def times(after: datetime, n: int) -> Sequence[datetime]:
        begin = wall_at(after, tz) - DAY
        return list(islice((at for at in _shifted(pattern, tz, begin, both_passes, in_gap) if at > after), n))

    return times


def _shifted(
    pattern: cron.Pattern, tz: ZoneInfo, begin: datetime, both_passes: bool, in_gap: bool
) -> Iterator[datetime]:
    for _, walls in groupby(pattern.forward(begin), datetime.date):
        today, gap = set[datetime](), False
        for wall in walls:
            instants = passes(wall, tz)
            if instants:
                today.update(instants if both_passes else instants[:1])
            elif in_gap and not gap:
                gap = True
                today.add(wall.replace(tzinfo=tz).astimezone(UTC))
        yield from sorted(today)


def since(times: Times, begin: datetime | None) -> Times:
    """Return the times from an instant on: none is due before the next time that the other system has noted."""
    if begin is None:
        return times
    just_before = begin - timedelta(microseconds=1)
    return lambda after, n: times(max(after, just_before), n)


def once(at: datetime) -> Times:
    return lambda after, n: [at] if at > after else []


@dataclass(frozen=True, slots=True)
class Difference:
    """A due time that is not the same there and here; None where there is none."""

    before: datetime | None
    after: datetime | None


def compared(theirs: Sequence[datetime], ours: Sequence[datetime], since: datetime) -> list[Difference]:
    """Compare due times one by one, those after an instant: the others passed while both were asked for."""
    there, here = ([at for at in each if at > since] for each in (theirs, ours))
    both = max(len(there), len(here))
    if len(theirs) == len(ours) == TIMES:
        both = min(len(there), len(here))
    pairs = zip_longest(there[:both], here[:both])
    return [Difference(before, after) for before, after in pairs if not _same(before, after)]


def _same(there: datetime | None, here: datetime | None) -> bool:
    if there is None or here is None:
        return there is here
    return abs(there - here) < SLIP


def other_nights(theirs: Times, schedule: Cron, now: datetime) -> str | None:
    """Say how the times differ on the nights of the coming year when the clocks change; None if they do not.

    The next ten times rarely reach such a night.
    """
    tz = zone(schedule.timezone)
    for night in (now + count * DAY for count in range(366)):
        if offset_at(night, tz) == offset_at(night + DAY, tz):
            continue
        there, here = (_between(times, night - DAY, night + 2 * DAY) for times in (theirs, by(schedule)))
        other = [Difference(before, after) for before, after in zip_longest(there, here) if before != after]
        if other:
            first = other[0]
            return (
                f"when the clocks of {schedule.timezone} change it is due {_shown(first.before)} there, "
                f"and {_shown(first.after)} here."
            )
    return None


def changes_clocks(name: str, now: datetime) -> bool:
    """Return True if the clocks of a zone change within half a year."""
    return offset_at(now, zone(name)) != offset_at(now + HALF_A_YEAR, zone(name))


def _between(times: Times, since: datetime, until: datetime) -> list[datetime]:
    found = list[datetime]()
    while (some := times(found[-1] if found else since, 100)) and len(found) < MOST_IN_A_NIGHT:
        found += [at for at in some if at <= until]
        if some[-1] > until:
            break
    return found


def _shown(at: datetime | None) -> str:
    return "at no time" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


# -- values of rows


def instant(value: object) -> datetime | None:
    """Read an instant of a row: a datetime, ISO text or seconds since 1970; without a zone it is UTC."""
    match value:
        case None | "":
            return None
        case datetime():
            at = value
        case bool():
            raise Invalid(f"{value} is not an instant.")
        case int() | float():
            at = datetime.fromtimestamp(value, UTC)
        case str():
            at = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        case _:
            raise Invalid(f"{str(value)[:60]!r} is not an instant.")
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)


def whole(value: object, default: int = 0) -> int:
    """Read a whole number of a row; null is the default."""
    if value is None or value == "":
        return default
    if isinstance(value, bool | int | float | str):
        return int(float(value)) if isinstance(value, str) else int(value)
    raise Invalid(f"{str(value)[:60]!r} is not a whole number.")


def text(value: object) -> str:
    """Read a text of a row; null is empty."""
    return "" if value is None else str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")


def without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is not given."""
    return {name: value for name, value in values.items() if value not in (None, "", {}, [], ())}


def each(rows: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Found], name: str) -> Reading:
    """Read rows one by one; one that cannot be read is refused, and the others go on."""
    jobs, refused = list[Found](), list[Unmovable]()
    for row in rows:
        ref = text(row.get(name)) or "?"
        try:
            jobs.append(read(row))
        except NOT_READABLE as error:
            refused.append(Unmovable(ref, text(row.get("name") or row.get("jobName") or row.get("url")), str(error)))
    return Reading(jobs, refused)


# -- out, as the body of a request


def as_request(found: Found, *, runs: bool, paused_at: datetime | None) -> dict[str, Any]:
    """Return the job as `POST /imports/NAME` takes it. `paused_at`: it arrives paused."""
    state, written = found.state, dict[str, Any]()
    if paused_at is not None and not state.is_over and state.paused_at is None:
        state = replace(state, paused_at=paused_at)
    for name in STATE:
        value = getattr(state, name)
        if value:
            written[name] = value.isoformat() if isinstance(value, datetime) else value
    if state.counted:
        written["counted"] = {kind.value: count for kind, count in state.counted.items() if count}
    if runs and state.runs:
        written["runs"] = _newest(state.runs)
    body = {"ref": found.ref, "id": None if found.id is None else str(found.id), "state": written}
    return without_empty({**body, "job": found.job, "source": found.source})


def _newest(runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    """Return the newest runs that fit into a request; the others stay counted."""
    found, size = list[dict[str, Any]](), 0
    for run in sorted(runs, key=lambda run: run.started_at, reverse=True):
        one = _run(run)
        size += len(json.dumps(one))
        if size > MOST_BYTES:
            break
        found.append(one)
    return found[::-1]


STATE: Final = (
    "created_at", "next_at", "last_at", "paused_at", "cancelled_at", "ended_at", "ended_as", "repeats_done", "failures",
    "period_start", "period_failures",
)  # fmt: skip


def _run(run: PastRun) -> dict[str, Any]:
    written: dict[str, Any] = {
        "started_at": run.started_at.isoformat(), "finished_at": run.finished_at.isoformat(),
        "outcome": run.outcome.value, "attempt": run.attempt, "execution_number": run.execution_number,
        "error": run.error, "traceback": run.traceback,
    }  # fmt: skip
    for name, value in {"result": run.result, "account": run.account}.items():
        if value is not None:
            written[name] = json.loads(value)
    return {name: value for name, value in written.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """The record of an import."""

    name: str
    kind: str
    source: str
    jobs: int
    at: datetime
    by: str
    undone_at: datetime | None
