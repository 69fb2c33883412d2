"""Forecasts: the next due times of a job, and the load of its schedule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from ostinato.core import cron
from ostinato.core import schedule as when
from ostinato.core.lifecycle.due_times import INSTANT, next_due
from ostinato.core.model import Job
from ostinato.core.policy import Policies
from ostinato.core.schedule import Cron, DueTimes, Every, Expired, Schedule, is_recurring, no_limit, search
from ostinato.core.times import MICROSECOND, Window, offset_at, wall_at, zone

# -- Forecast of load: the due times of a schedule, counted by stretches of time.
#
# Where the wall clock runs evenly the counts are computed, not walked through: a calendar of a week may ask for ten
# thousand jobs. Where the clock jumps, core/cron.py counts.

DAY: Final = timedelta(days=1)
CACHED_COUNTS: Final = 8192


@dataclass(frozen=True, slots=True)
class Grid:
    """Stretches of time, one after the other, all of one length."""

    start: datetime
    step: timedelta
    count: int

    @property
    def end(self) -> datetime:
        return self.start + self.count * self.step

    def stretch(self, number: int) -> tuple[datetime, datetime]:
        return self.start + number * self.step, self.start + (number + 1) * self.step

    def place(self, at: datetime) -> int:
        """Return the number of the stretch in which an instant lies; it may lie outside the grid."""
        return (at - self.start) // self.step


def load(schedule: Schedule, policies: Policies, next_due_at: datetime, grid: Grid) -> Sequence[int]:
    """Count the due times of a job in each stretch. Repeats are not counted down, and with a fixed delay each run
    takes no time: more is not known in advance."""
    end = grid.end if policies.end_at is None else min(grid.end, policies.end_at + MICROSECOND)
    counts = list(_counts(schedule, next_due_at, grid))
    for number, count in enumerate(counts):
        begin, until = grid.stretch(number)
        if not count:
            continue
        if until <= next_due_at or begin >= end:
            counts[number] = 0
        elif begin < next_due_at or until > end:
            inside = max(begin, next_due_at) - MICROSECOND, min(until, end) - MICROSECOND
            counts[number] = when.count_between(schedule, _anchor(schedule, next_due_at), *inside)
        if policies.window is not None and counts[number]:
            counts[number] = _within(policies.window, schedule, next_due_at, grid.stretch(number), counts[number])
    return counts


def _anchor(schedule: Schedule, next_due_at: datetime) -> datetime:
    """Return an anchor: the grid of the schedule passes through its next due time."""
    return next_due_at - schedule.period if isinstance(schedule, Every) else next_due_at


def _counts(schedule: Schedule, next_due_at: datetime, grid: Grid) -> Sequence[int]:
    match schedule:
        case Every(period) if period >= grid.step:
            return _stepped(period, next_due_at, grid)
        case Every(period):
            anchor = next_due_at - period
            return [
                when.count_between(schedule, anchor, begin - MICROSECOND, until - MICROSECOND)
                for begin, until in map(grid.stretch, range(grid.count))
            ]
        case Cron():
            return _cron(schedule, grid)
        case _:
            counts = [0] * grid.count
            if 0 <= (place := grid.place(next_due_at)) < grid.count:
                counts[place] = 1
            return counts


def _stepped(period: timedelta, first: datetime, grid: Grid) -> list[int]:
    counts = [0] * grid.count
    due = first if first >= grid.start else first + -(-(grid.start - first) // period) * period
    while due < grid.end:
        counts[grid.place(due)] += 1
        due += period
    return counts


@lru_cache(CACHED_COUNTS)
def _cron(schedule: Cron, grid: Grid) -> tuple[int, ...]:
    pattern, tz = cron.parse(schedule.expression), zone(schedule.timezone)
    days = range((grid.end - grid.start) // DAY + 2)
    offsets = {offset_at(grid.start + (day - 1) * DAY, tz) for day in days} | {offset_at(grid.end + DAY, tz)}
    if len(offsets) > 1:
        return tuple(
            cron.count_between(pattern, tz, begin - MICROSECOND, until - MICROSECOND)
            for begin, until in map(grid.stretch, range(grid.count))
        )
    counts = [0] * grid.count
    begin, end = wall_at(grid.start, tz), wall_at(grid.end, tz)
    for wall in pattern.forward(begin):
        if wall >= end:
            break
        counts[(wall - begin) // grid.step] += 1
    return tuple(counts)


def _within(
    window: Window, schedule: Schedule, next_due_at: datetime, stretch: tuple[datetime, datetime], count: int
) -> int:
    """Count the due times that a window admits; a window that opens and closes within a stretch is ignored."""
    begin, until = stretch
    is_open = {window.contains(begin), window.contains(until - MICROSECOND)}
    if len(is_open) == 1:
        return count if is_open.pop() else 0
    anchor, inside, due = _anchor(schedule, next_due_at), 0, max(begin, next_due_at) - MICROSECOND
    while (following := when.next_after(schedule, anchor, due)) is not None and following < until:
        inside += window.contains(following)
        due = following
    return inside


# -- Forecast of a job's next due times

MOST_CLOSED: Final = 1_000  # a schedule that misses so many openings of its window is taken to miss all


def upcoming(job: Job, now: datetime, n: int) -> list[datetime]:
    """List the next times at which the schedule will run the job: within its bounds, its window and its repeats."""
    return foreseen(job, now, n, no_limit).times


def foreseen(job: Job, now: datetime, n: int, expired: Expired) -> DueTimes:
    """Search for the times of `upcoming` until the search expires."""
    facts, policies = job.facts, job.policies
    if facts.paused_at or facts.ended_at or facts.cancelled_at:
        return DueTimes([], complete=True)
    if policies.total_repeats:
        n = min(n, max(policies.total_repeats - facts.repeats_done, 0))
    return search(_times(job, now), n, expired)


def _times(job: Job, now: datetime) -> Iterator[datetime | None]:
    """Yield each time, and None for each due time that the window skips."""
    facts = job.facts
    after = max(now, facts.last_due_at or facts.anchor)
    if facts.next_due_at is not None and facts.next_due_at > now:
        yield from _inside(job, facts.next_due_at)
        after = facts.next_due_at
    closed = 0
    while closed < MOST_CLOSED and (due := next_due(job.definition, facts, after)) is not None:
        inside = list(_inside(job, due))
        yield from inside or (None,)
        closed = 0 if inside else closed + 1
        after = due if inside else _before_opening(job, due)


def _inside(job: Job, due: datetime) -> Iterator[datetime]:
    """Yield a due time inside the window; one outside is skipped, but a run-once waits for the opening."""
    window = job.policies.window
    if window is None or window.contains(due):
        yield due
    elif not is_recurring(job.schedule):
        yield window.next_opening(due)


def _before_opening(job: Job, due: datetime) -> datetime:
    window = job.policies.window
    return due if window is None else max(due, window.next_opening(due) - INSTANT)
