"""Commands and questions about jobs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core import lifecycle, schedule
from ostinato.core.checks import check_definition, is_storable
from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError, Stale
from ostinato.core.model import (
    Change,
    Definition,
    Event,
    Execution,
    Job,
    Json,
    Live,
    Luck,
    Result,
    Skip,
    Status,
)
from ostinato.core.payload import encode
from ostinato.core.why import Why
from ostinato.scheduler.known import KnownTasks
from ostinato.scheduler.metrics import Figures
from ostinato.scheduler.pages import PAGE, Page, Sort, check_page, check_words, job_cursor, job_key
from ostinato.scheduler.views import JobStats, JobView
from ostinato.scheduler.why import Inquiry
from ostinato.store.jobs import Copy, Rule
from ostinato.store.rows import LastRun
from ostinato.store.search import JobFilter, JobKey
from ostinato.store.statistics import Counters
from ostinato.store.store import Store

Ref = UUID | str
ALL = JobFilter()


class JobDesk:
    """Jobs of one app, by id or by key."""

    def __init__(self, store: Store, clock: Clock, luck: Luck, app: str, known: KnownTasks) -> None:
        self._store, self._clock, self._luck, self._app, self._known = store, clock, luck, app, known

    # -- making

    def create(
        self,
        definitions: Sequence[Definition],
        *,
        by: str = "",
        connection: object | None = None,
        allow_unknown: bool = False,
    ) -> list[UUID]:
        """Make jobs, all or none. One whose key is held by a job that has not ended is that job."""
        return self._store.jobs.add(self._changes(definitions, by, allow_unknown), connection)

    def _changes(self, definitions: Sequence[Definition], by: str, allow_unknown: bool) -> list[Change]:
        for definition in definitions:
            check_definition(definition)
        if not allow_unknown:
            self._known.require({definition.task for definition in definitions})
        now = self._clock.now()
        return [lifecycle.create(self._luck.id(now), each, now, self._luck, by) for each in definitions]

    def make(
        self, definition: Definition, *, by: str = "", allow_unknown: bool = False
    ) -> tuple[JobView, bool]:
        """One job as it was made, and whether it is new: one that holds the key already is answered as it is."""
        (change,) = self._changes([definition], by, allow_unknown)
        (job_id,) = self._store.jobs.add([change])
        new = job_id == change.job.id
        return JobView.after(change, ()) if new else self.get(job_id), new

    def create_copies(
        self,
        definition: Definition,
        args: Sequence[Json],
        *,
        connection: object | None = None,
        allow_unknown: bool = False,
    ) -> list[UUID]:
        """Make jobs that differ only in their args: one passes through the checks and the rules, the others copy it."""
        check_definition(definition)
        if not allow_unknown:
            self._known.require({definition.task})
        now, luck = self._clock.now(), self._luck
        original = lifecycle.create(luck.id(now), replace(definition, args=args[0]), now, luck)
        copies = [Copy(luck.id(now), luck.id(now), each) for each in args[1:]]
        self._store.jobs.add_copies(original, copies, connection)
        return [original.job.id, *(copy.job_id for copy in copies)]

    def edit(
        self,
        ref: Ref,
        change: Callable[[Definition], Definition],
        *,
        by: str = "",
        allow_unknown: bool = False,
        expected_version: int | None = None,
    ) -> JobView:
        """Change a definition; `change` gets the one that is current under the job's lock.

        With an expected version it is changed only if it still has that one; else Stale.
        """

        def rule(job: Job, lives: Sequence[Live], _: Any) -> Change:
            if expected_version is not None and job.facts.version != expected_version:
                raise Stale(
                    f"This job has version {job.facts.version} by now, not {expected_version}: read it again."
                )
            wanted = change(job.definition)
            check_definition(wanted)
            return lifecycle.edit(job, lives, wanted, self._clock.now(), self._luck, by)

        job_id = self.resolve(ref)
        wanted = change(self.get(job_id).definition)
        if not allow_unknown:
            self._known.require({wanted.task})
        return self._command(job_id, rule)

    # -- steering

    def pause(self, ref: Ref, *, by: str = "") -> JobView:
        """From its return on nothing of the job starts but what somebody then runs by hand."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.pause(job, lives, self._clock.now(), self._luck, by)
        )

    def resume(self, ref: Ref, *, by: str = "") -> JobView:
        """Go on without catching up."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.resume(job, lives, self._clock.now(), self._luck, by)
        )

    def cancel(self, ref: Ref, *, by: str = "") -> JobView:
        """Stop for good."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.cancel(job, lives, self._clock.now(), self._luck, by)
        )

    def delete(self, ref: Ref, *, by: str = "") -> None:
        """Gone from every answer at once."""
        rule: Rule = lambda job, lives, _: lifecycle.delete(job, lives, self._clock.now(), self._luck, by)  # noqa: E731
        self._store.jobs.change(self.resolve(ref), rule)

    def retry(self, ref: Ref, *, by: str = "") -> JobView:
        """Go on with the failed occurrence."""
        return self._command(
            ref,
            lambda job, lives, last: lifecycle.retry(job, lives, last, self._clock.now(), self._luck, by),
            wants_last=True,
        )

    def run(self, ref: Ref, args: dict[str, Any] | None = None, *, by: str = "") -> JobView:
        """An extra occurrence now, with other args if given; the schedule does not move."""
        text = None if args is None else encode(args)
        return self._command(
            ref, lambda job, lives, _: lifecycle.run(job, lives, text, self._clock.now(), self._luck, by)
        )

    def restart(self, ref: Ref, *, by: str = "") -> JobView:
        """Begin as new."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.restart(job, lives, self._clock.now(), self._luck, by)
        )

    def bulk(self, action: str, refs: Iterable[Ref], *, by: str = "") -> dict[Ref, OstinatoError | None]:
        """One action for many jobs, each in a transaction of its own: what went wrong for which."""
        command = self._actions().get(action)
        if command is None:
            raise Invalid(f"There is no action {action!r}; there are {', '.join(self._actions())}.")
        answers: dict[Ref, OstinatoError | None] = {}
        for ref in refs:
            try:
                command(ref, by=by)
                answers[ref] = None
            except OstinatoError as error:
                answers[ref] = error
        return answers

    def _actions(self) -> dict[str, Callable[..., object]]:
        return {
            "pause": self.pause, "resume": self.resume, "cancel": self.cancel, "delete": self.delete,
            "retry": self.retry, "run": self.run, "restart": self.restart,
        }  # fmt: skip

    # -- asking

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
        """How the newest run of each of these ended, for those that have one."""
        return self._store.history.last_runs([view.id for view in views])

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
            last_execution_at=None if last is None else last.started_at or last.finished_at,
            next_scheduled_at=view.next_run_at,
            success_rate=figures.success_rate,
        )

    def next_times(self, ref: Ref, n: int = 10) -> Sequence[datetime]:
        """When the schedule comes round next."""
        view = self.get(ref)
        facts = view.facts
        if facts.paused_at or facts.ended_at or facts.cancelled_at:
            return []
        after = max(self._clock.now(), facts.last_due_at or facts.anchor)
        return schedule.preview(view.definition.schedule, facts.anchor, after, n)

    def skips(self, ref: Ref, limit: int = 50) -> Sequence[Skip]:
        """The due times that were not run, the newest first."""
        return self._store.history.skips(self.resolve(ref), limit)

    def why(self, ref: Ref, at: datetime | None = None) -> Why:
        """What happened to the occurrence at or before an instant (now, unless given), as data and as sentences."""
        if at is not None and at.tzinfo is None:
            raise Invalid(
                "The instant is in no time zone; say which one is meant, for example 2026-11-16T09:00:00Z."
            )
        now = self._clock.now()
        return Inquiry(self._store, self._luck).why(self.get(ref), at or now, now)

    def events(self, ref: Ref | None = None, limit: int = 50) -> Sequence[Event]:
        """What people and Ostinato did, the newest first."""
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

    def _command(self, ref: Ref, rule: Rule, wants_last: bool = False) -> JobView:
        """The job as the command left it: a worker may have gone on with it by now."""
        found: list[Live] = []

        def noting(job: Job, lives: Sequence[Live], last: Execution | None) -> Change:
            found[:] = lives
            return rule(job, lives, last)

        return JobView.after(self._store.jobs.change(self.resolve(ref), noting, wants_last), found)


def _status(name: str) -> Status:
    try:
        return Status(name)
    except ValueError:
        raise Invalid(f"There is no status {name!r}; there are {', '.join(Status)}.") from None
