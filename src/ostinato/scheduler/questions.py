"""Questions about jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.checks import is_storable
from ostinato.core.errors import Conflict, Invalid, NotFound
from ostinato.core.model import Event, Luck, Result, Skip, Status
from ostinato.core.searching import DueTimes, Expired, no_limit
from ostinato.core.upcoming import foreseen
from ostinato.core.why import BY_HAND, Why
from ostinato.scheduler.metrics import Figures
from ostinato.scheduler.pages import PAGE, Page, Sort, check_page, check_words, job_cursor, job_key
from ostinato.scheduler.views import JobStats, JobView
from ostinato.scheduler.why import Inquiry
from ostinato.store.rows import LastRun
from ostinato.store.search import JobFilter, JobKey
from ostinato.store.statistics import Counters
from ostinato.store.store import Store

Ref = UUID | str
ALL = JobFilter()
WAITING = (Status.PENDING, Status.QUEUED)


class JobQuestions:
    """Queries about the jobs of one app, by id or by key."""

    def __init__(self, store: Store, clock: Clock, luck: Luck, app: str) -> None:
        self._store, self._clock, self._luck, self._app = store, clock, luck, app

    def get(self, ref: Ref) -> JobView:
        """One job."""
        job_id = self.resolve(ref)
        row = self._store.jobs.get([job_id]).get(job_id)
        if row is None:
            raise NotFound(f"There is no job {ref}.")
        return JobView.of(row)

    def list(
        self,
        *,
        status: Status | str | None = None,
        task: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: UUID | None = None,
        all_apps: bool = False,
    ) -> list[JobView]:
        """A page of jobs, the newest first."""
        statuses = frozenset() if status is None else frozenset([_status(status)])
        chosen = JobFilter(statuses, task, queue, app=None if all_apps else self._app)
        newest = Sort("created_at", down=True)
        cursor = None if before is None else job_cursor(newest, JobKey(before))
        return list(self.search(chosen, limit=min(limit, PAGE), cursor=cursor).items)

    def search(
        self,
        chosen: JobFilter = ALL,
        *,
        sort: str = "-created_at",
        limit: int = 50,
        offset: int = 0,
        cursor: str | None = None,
    ) -> Page[JobView]:
        """A page of jobs. Sorts: created_at, updated_at, name, next_run_at, priority, status; with a - falling."""
        check_page(limit, offset)
        check_words(task=chosen.task, queue=chosen.queue, tag=chosen.tag, text=chosen.text, app=chosen.app)
        by = Sort.of(sort)
        found = self._store.search.jobs(chosen, by.by, by.down, limit, offset, job_key(cursor, by))
        items = tuple(JobView.of(row) for row in found.rows)
        return Page(items, found.total, job_cursor(by, found.last))

    def last_runs(self, views: Iterable[JobView]) -> dict[UUID, LastRun]:
        """Return the newest ended run of each of these jobs, if there is one."""
        return self._store.history.last_runs([view.id for view in views])

    def with_reasons(self, views: Sequence[JobView]) -> Sequence[JobView]:
        """Return the same jobs; those that are pending or queued say why."""
        waiting = {view.id: view.waiting for view in views if view.status in WAITING}
        rows = [(view.job, live) for view in views if (live := waiting.get(view.id))]
        told = Inquiry(self._store, self._luck).obstacles(rows, self._clock.now())
        reasons = {job_id: BY_HAND if live is None else told[live.id] for job_id, live in waiting.items()}
        return [replace(view, reason=reasons.get(view.id)) if reasons else view for view in views]

    def stats(self, ref: Ref) -> JobStats:
        """A job in figures."""
        view = self.get(ref)
        facts, last = view.facts, self._store.history.last_of(view.id)
        runs = self._store.statistics.newest_runs(view.id)
        counted = {result: getattr(facts, result) for result in Result}
        figures = Figures.of([Counters(counted, facts.skipped)], runs)
        return JobStats(
            total_executions=figures.total,
            successful_runs=figures.completed,
            failed_runs=figures.failed,
            cancelled_runs=figures.cancelled,
            skipped=figures.skipped,
            average_duration=figures.average_duration,
            percentiles=figures.durations,
            lateness=figures.lateness,
            cpu_ms=figures.cpu_ms,
            memory_mb=figures.memory_mb,
            last_execution_at=None if last is None else last.started_at or last.finished_at,
            next_scheduled_at=view.next_run_at,
            success_rate=figures.success_rate,
        )

    def next_times(self, ref: Ref, n: int = 10) -> Sequence[datetime]:
        """List the next times at which the schedule will run it."""
        return self.foreseen(ref, n, no_limit).times

    def foreseen(self, ref: Ref, n: int, expired: Expired) -> DueTimes:
        """Search for the next times until the search expires."""
        return foreseen(self.get(ref).job, self._clock.now(), n, expired)

    def skips(self, ref: Ref, limit: int = 50) -> Sequence[Skip]:
        """The due times that were not run, the newest first."""
        return self._store.history.skips(self.get(ref).id, limit)

    def why(self, ref: Ref, at: datetime | None = None) -> Why:
        """Explain the occurrence at or before an instant (now, unless given), as data and as sentences."""
        if at is not None and at.tzinfo is None:
            raise Invalid(
                "The instant is in no time zone; say which one is meant, for example 2026-11-16T09:00:00Z."
            )
        now = self._clock.now()
        return Inquiry(self._store, self._luck).why(self.get(ref), at or now, now)

    def events(self, ref: Ref | None = None, limit: int = 50) -> Sequence[Event]:
        """List events, the newest first."""
        return self._store.history.events(limit, None if ref is None else self.resolve(ref))

    def resolve(self, ref: Ref) -> UUID:
        """The id that an id, its text or a key stands for."""
        if isinstance(ref, UUID):
            return ref
        try:
            return UUID(ref)
        except ValueError:
            pass
        if not is_storable(ref):
            raise NotFound(f"There is no job with the key {ref!r}{self._in_app()}.")
        ids = self._store.jobs.ids_by_key(self._app, ref)
        if ids:
            return self._store.jobs.holder(self._app, ref) or ids[0]
        if not self._app:
            return self._in_any_app(ref)
        raise NotFound(f"There is no job with the key {ref!r}{self._in_app()}.")

    def _in_any_app(self, key: str) -> UUID:
        """At the desk of no app (an operator's), a key that one app alone has is that app's."""
        found = self._store.jobs.by_key_anywhere(key)
        if len(found) > 1:
            raise Conflict(f"The apps {', '.join(sorted(found))} each have a job {key!r}: take its id.")
        for job_id in found.values():
            return job_id
        raise NotFound(f"There is no job with the key {key!r}.")

    def _in_app(self) -> str:
        return f" in the app {self._app!r}" if self._app else ""


def _status(name: str) -> Status:
    try:
        return Status(name)
    except ValueError:
        raise Invalid(f"There is no status {name!r}; there are {', '.join(Status)}.") from None
