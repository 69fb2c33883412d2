"""Queries of the dashboard: one for each page. Each reads few rows, however long history is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.forecast import Grid, foreseen, load
from ostinato.core.model import EPOCH, Event, Execution, Job, Live, Skip, Status
from ostinato.core.read_models import Hour, QueueRow, Ran, WorkerRow, is_wanted
from ostinato.core.schedule import Cron, Expired, no_limit
from ostinato.core.times import change_between, offset_at, zone
from ostinato.service.doctor import LATE_AFTER, LATELY, Finding, FindingState, failures, judge
from ostinato.service.executions import ExecutionService
from ostinato.service.jobs import JobService
from ostinato.service.metrics import Figures
from ostinato.service.paging import PAGE_LIMIT, Page, execution_key
from ostinato.service.views import ExecutionView, JobView, Ref
from ostinato.store.dashboard import Course
from ostinato.store.doctor import Checkup
from ostinato.store.store import Store

SPARK: Final = 20  # runs beside a job in a list
DOTS: Final = 120  # runs in the chart of one job
RUNNING: Final = 250
SHOWN_ROWS: Final = 8
MOST_IN_AN_HOUR: Final = 100
SPEAKING: Final = 1_000  # newest runs, from which percentiles are computed
TIMES: Final = 4  # due times shown of one job in an hour
LOOKED_THROUGH: Final = 5_000  # events, for those of some kinds
QUARTER: Final = timedelta(minutes=15)
COMING: Final = 48  # quarters of an hour
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _Team:
    """A worker, its state, and its runs."""

    worker: WorkerRow
    state: str  # working, draining, silent, stopped, lost
    runs: Sequence[ExecutionView]


@dataclass(frozen=True, slots=True)
class Overview:
    """The content of the overview page."""

    counts: Mapping[Status, int]
    hours: Sequence[Hour]
    figures: Figures
    alarms: Sequence[Finding]
    running: Sequence[ExecutionView]  # a few of them
    running_count: int
    failed: Sequence[ExecutionView]
    following: Sequence[JobView]  # jobs that are due next
    coming: "_Ahead"  # due times by the quarter of an hour
    team: Sequence[_Team]
    queues: Sequence[QueueRow]
    jobs: Mapping[UUID, JobView]  # jobs of the rows above


@dataclass(frozen=True, slots=True)
class Attempt:
    """An execution, with the details that only its own page shows."""

    view: ExecutionView
    row: Execution | Live
    job: JobView
    attempts: Sequence[ExecutionView]  # all at the same occurrence or step, the first first
    worker: WorkerRow | None
    whole: UUID | None  # of a step: the run that it belongs to


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a zone's clock before coming due times: zone, instant, size, and number of jobs in the zone."""

    zone: str
    at: datetime
    by: timedelta  # forward is a gap, back a fold
    jobs: int


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Coming due times, counted by stretches of time, and changes of clocks meanwhile."""

    counts: Sequence[tuple[datetime, int]]
    changes: Sequence[ClockChange]
    complete: bool  # false: the search expired, and some jobs are not counted


class DashboardService:
    """Questions of the dashboard."""

    def __init__(self, store: Store, clock: Clock, jobs: JobService, executions: ExecutionService) -> None:
        self._store, self._clock, self._jobs, self._executions = store, clock, jobs, executions

    # -- overview

    def overview(self, span: timedelta, expired: Expired = no_limit) -> Overview:
        """Sum up a span until now. The search for coming due times ends when it expires."""
        now, figures = self._clock.now(), self._store.statistics
        counters = figures.counters()
        condition = Checkup(self._store.database).condition(now, LATE_AFTER, LATELY)
        findings = (*judge(condition, now), *failures(figures.failing(now - LATELY, counters)))
        live, count = self._store.board.running(SHOWN_ROWS)
        running = [ExecutionView.of(row) for row in live]
        failed = [ExecutionView.of(row) for row in self._store.board.failed(SHOWN_ROWS)]
        following = self.some(self._store.board.soonest(SHOWN_ROWS))
        return Overview(
            counts={**dict.fromkeys(Status, 0), **self._store.search.count_by_status()},
            hours=self._store.hours.between(now - span + HOUR, now),
            figures=Figures.of(counters.values(), figures.newest_runs(limit=SPEAKING)),
            alarms=[found for found in findings if found.state is not FindingState.OK],
            running=running,
            running_count=count,
            failed=failed,
            following=sorted(following.values(), key=lambda view: view.next_run_at or now),
            coming=self.ahead(Grid(_floor(now, QUARTER), QUARTER, COMING), expired),
            team=self._team([row for row in condition.workers if row.closed_at is None], ()),
            queues=condition.queues,
            jobs=self.some(run.job_id for run in (*running, *failed)),
        )

    def some(self, ids: Iterable[UUID]) -> dict[UUID, JobView]:
        """Return the jobs among these that exist."""
        wanted = list(dict.fromkeys(ids))
        return {key: JobView.of(row) for key, row in self._store.jobs.get(wanted).items()} if wanted else {}

    def sparks(self, views: Iterable[JobView], limit: int = SPARK) -> Mapping[UUID, Sequence[Ran]]:
        """Return the newest runs of each of these jobs, the newest last."""
        return self._store.board.newest_runs([view.id for view in views], limit)

    # -- workers

    def team(self) -> Sequence[_Team]:
        """List live and recent workers, with the executions each runs."""
        running, _ = self._store.board.running(RUNNING)
        return self._team(self._store.workers.seen(self._clock.now(), LATELY), map(ExecutionView.of, running))

    def _team(self, rows: Iterable[WorkerRow], running: Iterable[ExecutionView]) -> list[_Team]:
        now, of = self._clock.now(), dict[UUID | None, list[ExecutionView]]()
        for run in running:
            of.setdefault(run.worker_id, []).append(run)
        team = [_Team(row, _state(row, now), of.get(row.id, [])) for row in rows]
        return sorted(team, key=lambda each: (each.worker.closed_at is not None, each.worker.host, each.worker.pid))

    # -- one job, one execution

    def history(
        self, ref: Ref, limit: int, cursor: str | None = None
    ) -> tuple[Page[ExecutionView], list[ExecutionView | Skip]]:
        """Return a page of a job's executions, alone and together with the skips between them."""
        job_id = self._jobs.resolve(ref)
        page = self._executions.search(job_id, limit=limit, cursor=cursor)
        last = execution_key(cursor)
        before = None if last is None else self._store.history.find(last.id)
        upper = None if before is None else before.due_at
        skips = self._store.history.skips(job_id, limit, upper)
        if page.cursor is not None:
            skips = [skip for skip in skips if skip.last_due_at >= page.items[-1].due_at]
        return page, interleave(page.items, skips)

    def execution(self, execution_id: UUID) -> Attempt:
        """Return one execution, with all attempts at its occurrence, or at the same step."""
        view = self._executions.get(execution_id)
        row = self._store.history.find(execution_id)
        job = self._jobs.get(view.job_id)
        assert row is not None  # get has found it, and retention does not remove it this soon
        every = self._attempts(job, row.number, row.step)
        whole = self._attempts(job, row.number)[-1:] if row.step else []
        seen = self._store.workers.seen(self._clock.now(), timedelta(days=30)) if view.worker_id else []
        worker = next((each for each in seen if each.id == view.worker_id), None)
        run = next((each.id for each in whole), None)
        return Attempt(view, row, job, [ExecutionView.of(each) for each in every], worker, run)

    def _attempts(self, job: JobView, number: int, step: str = "") -> list[Execution | Live]:
        """Return the attempts at an occurrence, or at one of its steps, the first attempt first."""
        lives = [live for live in job.lives if (live.number, live.step) == (number, step)]
        return [*self._store.traces.attempts(job.id, number, step), *lives]

    # -- future and past

    def ahead(self, grid: Grid, expired: Expired = no_limit) -> _Ahead:
        """Count the due times of all jobs in each stretch of time until the search expires."""
        total, courses, complete = [0] * grid.count, self._store.board.courses(grid.end), True
        for course in courses:
            if expired():
                complete = False
                break
            for number, count in enumerate(load(course.schedule, course.policies, course.next_due_at, grid)):
                total[number] += count * course.jobs
        counts = [(grid.stretch(number)[0], count) for number, count in enumerate(total)]
        return _Ahead(counts, self._clock_changes(courses, grid.end), complete)

    def due_within(
        self, begin: datetime, end: datetime, expired: Expired = no_limit
    ) -> list[tuple[JobView, list[datetime]]]:
        """List jobs that have due times in a stretch of time, with a few of these, until the search expires."""
        now, grid, board = self._clock.now(), Grid(begin, end - begin, 1), self._store.board
        there = [course for course in board.courses(end) if not expired() and _is_in(course, grid)]
        jobs = (job_id for job_id, course in board.jobs_on(there, end) if _is_in(course, grid)) if there else ()
        chosen = list(islice(jobs, MOST_IN_AN_HOUR))
        found = self.some(chosen)
        return [(found[each], _times(found[each].job, now, begin, end, expired)) for each in chosen if each in found]

    def queued_within(self, begin: datetime, end: datetime) -> list[ExecutionView]:
        """List executions that were queued in a stretch of the past, the newest first."""
        found = self._store.board.queued_between(begin, end, MOST_IN_AN_HOUR)
        return [ExecutionView.of(row) for row in found]

    def hours(self, since: datetime) -> list[Hour]:
        """Count executions by the hour, until now."""
        return self._store.hours.between(since, self._clock.now())

    def _clock_changes(self, courses: Iterable[Course], until: datetime) -> list[ClockChange]:
        """List the changes, before an instant, of clocks that jobs use."""
        now, by_zone = self._clock.now().replace(microsecond=0), dict[str, int]()
        for course in courses:
            if isinstance(course.schedule, Cron):
                by_zone[course.schedule.timezone] = by_zone.get(course.schedule.timezone, 0) + course.jobs
        found = []
        for name, jobs in sorted(by_zone.items()):
            tz = zone(name)
            before, after = offset_at(now, tz), offset_at(until, tz)
            if before != after:
                found.append(ClockChange(name, change_between(now, until, tz), after - before, jobs))
        return found

    # -- activity

    def audit(
        self, job: Ref | None, kinds: Collection[str], by: str, limit: int, before: UUID | None
    ) -> tuple[list[Event], UUID | None]:
        """List events, the newest first, and the cursor to continue; None at the end."""
        job_id = None if job is None else self._jobs.get(job).id
        found = list[Event]()
        for _ in range(LOOKED_THROUGH // PAGE_LIMIT):
            page = self._store.history.events(PAGE_LIMIT, job_id, before)
            for event in page:
                before = event.id
                if is_wanted(event.kind, kinds) and by.lower() in event.by.lower():
                    found.append(event)
                if len(found) == limit:
                    return found, before
            if len(page) < PAGE_LIMIT:
                return found, None
        return found, before


def interleave(runs: Sequence[ExecutionView], skips: Sequence[Skip]) -> list[ExecutionView | Skip]:
    """Merge runs and skips by due time, the latest first; runs of one due time keep their order."""
    rest = sorted(skips, key=lambda skip: skip.last_due_at)
    merged = list[ExecutionView | Skip]()
    for run in runs:
        while rest and rest[-1].last_due_at > run.due_at:
            merged.append(rest.pop())
        merged.append(run)
    return [*merged, *reversed(rest)]


def _is_in(course: Course, grid: Grid) -> bool:
    return load(course.schedule, course.policies, course.next_due_at, grid)[0] > 0


def _state(row: WorkerRow, now: datetime) -> str:
    if row.closed_at is not None:
        return row.closed_as or "stopped"
    if row.lease_until <= now:
        return "silent"
    return "draining" if row.drain_asked_at else "working"


def _floor(at: datetime, step: timedelta) -> datetime:
    return at - (at - EPOCH) % step


def _times(job: Job, now: datetime, begin: datetime, end: datetime, expired: Expired) -> list[datetime]:
    """List the first few due times of a job within a stretch of time."""
    from_there = foreseen(job, max(now, begin - timedelta(microseconds=1)), TIMES, expired).times
    return [due for due in from_there if begin <= due < end]
