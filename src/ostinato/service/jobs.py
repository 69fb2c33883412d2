"""Commands and questions about jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core import lifecycle
from ostinato.core.access import Caller, trusted
from ostinato.core.account import Stop
from ostinato.core.auth import references
from ostinato.core.checks import check_definition, merge
from ostinato.core.errors import Conflict, Invalid, NotFound, OstinatoError, Stale
from ostinato.core.forecast import foreseen
from ostinato.core.limits import is_limited
from ostinato.core.model import Chance, Change, Definition, Event, Execution, Job, Json, Live, Skip, Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.payload import decode, encode, is_storable
from ostinato.core.read_models import JobFilter, LastRun, TaskCounters
from ostinato.core.schedule import DueTimes, Expired, no_limit
from ostinato.core.task_schema import TaskSchema
from ostinato.core.trace import Sending
from ostinato.core.why import BY_HAND, Why
from ostinato.service.metrics import Figures
from ostinato.service.paging import PAGE_LIMIT, Page, Sort, check_page, check_words, job_cursor, job_key
from ostinato.service.tasks import KnownTasks
from ostinato.service.views import JobStats, JobView, Ref
from ostinato.service.why import Inquiry
from ostinato.store.jobs import Copies, Rule
from ostinato.store.search import JobKey
from ostinato.store.store import Store

ALL = JobFilter()
WAITING = (Status.PENDING, Status.QUEUED)


class _JobQuestions:
    """Queries about the jobs of one app, by id or by key."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, app: str) -> None:
        self._store, self._clock, self._chance, self._app = store, clock, chance, app

    def get(self, ref: Ref) -> JobView:
        """Return one job."""
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
        """Return a page of jobs, the newest first."""
        statuses = frozenset() if status is None else frozenset([_status(status)])
        chosen = JobFilter(statuses, task, queue, app=None if all_apps else self._app)
        newest = Sort("created_at", down=True)
        cursor = None if before is None else job_cursor(newest, JobKey(before))
        return list(self.search(chosen, limit=min(limit, PAGE_LIMIT), cursor=cursor).items)

    def search(
        self,
        chosen: JobFilter = ALL,
        *,
        sort: str = "-created_at",
        limit: int = 50,
        offset: int = 0,
        cursor: str | None = None,
    ) -> Page[JobView]:
        """Return a page of jobs. Sorts: created_at, updated_at, name, next_run_at, priority, status; - for falling."""
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
        """Return the same jobs; pending or queued ones get a reason."""
        waiting = {view.id: view.waiting for view in views if view.status in WAITING}
        rows = [(view.job, live) for view in views if (live := waiting.get(view.id))]
        obstacles = Inquiry(self._store, self._chance).obstacles(rows, self._clock.now())
        reasons = {job_id: BY_HAND if live is None else obstacles[live.id] for job_id, live in waiting.items()}
        return [replace(view, reason=reasons.get(view.id)) if reasons else view for view in views]

    def stats(self, ref: Ref) -> JobStats:
        """Return the figures of a job."""
        view = self.get(ref)
        facts, last = view.facts, self._store.history.last_of(view.id)
        runs = self._store.statistics.newest_runs(view.id)
        counted = {result: getattr(facts, result) for result in OutcomeKind}
        figures = Figures.of([TaskCounters(counted, facts.skipped)], runs)
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
        """List the skips of a job, the newest first."""
        return self._store.history.skips(self.get(ref).id, limit)

    def why(self, ref: Ref, at: datetime | None = None) -> Why:
        """Explain the occurrence at or before an instant (now, unless given), as data and as sentences."""
        if at is not None and at.tzinfo is None:
            raise Invalid("The instant has no time zone; add one, for example 2026-11-16T09:00:00Z.")
        now = self._clock.now()
        return Inquiry(self._store, self._chance).why(self.get(ref), at or now, now)

    def events(self, ref: Ref | None = None, limit: int = 50) -> Sequence[Event]:
        """List events, the newest first."""
        return self._store.history.events(limit, None if ref is None else self.resolve(ref))

    def resolve(self, ref: Ref) -> UUID:
        """Return the id of a job, given its id, the id as text, or its key."""
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
        """Find a key in all apps, for a service without an app (an operator's); Conflict if several apps have it."""
        found = self._store.jobs.by_key_anywhere(key)
        if len(found) > 1:
            raise Conflict(f"The apps {', '.join(sorted(found))} each have a job {key!r}: use its id.")
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


__all__ = ["JobService", "Ref"]


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted job: the key whose declaration creates no job any more, and the stop of its runs."""

    declined: str | None
    stop: Stop | None


class _EnqueueTracer(Protocol):
    """A tracer of enqueues."""

    def sending(self, definitions: Sequence[Definition]) -> AbstractContextManager[Sending]:
        """Enqueue within a span; the definitions that it gives carry its traceparent."""


class JobService(_JobQuestions):
    """Commands and questions about the jobs of one app."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, app: str, known: KnownTasks) -> None:
        super().__init__(store, clock, chance, app)
        self._known = known
        self.tracer: _EnqueueTracer | None = None

    # -- creation

    def create(
        self,
        definitions: Sequence[Definition],
        *,
        by: str = "",
        connection: object | None = None,
        allow_unknown: bool = False,
    ) -> list[UUID]:
        """Create jobs, all or none. A key of a job that has not ended returns that job."""
        with self._sending(definitions) as sending:
            changes = self._changes(sending.definitions, by, allow_unknown)
            sending.job_ids = self._store.jobs.add(changes, connection, self._followers(changes))
            return list(sending.job_ids)

    def put(self, definition: Definition, connection: object | None = None) -> JobView:
        """Create one job without a key, perhaps in the caller's transaction, and return it."""
        with self._sending([definition]) as sending:
            (change,) = self._changes(sending.definitions, "", False)
            sending.job_ids = self._store.jobs.add([change], connection)
        return JobView.after(change, ())

    def _sending(self, definitions: Sequence[Definition]) -> AbstractContextManager[Sending]:
        return nullcontext(Sending(definitions)) if self.tracer is None else self.tracer.sending(definitions)

    def check(self, wanted: Definition, before: Definition, *, allow_unknown: bool = False) -> None:
        """Raise the error that such an edit would raise; nothing is stored."""
        check_definition(wanted)
        self._check_edit(before, wanted, self._known.described({wanted.task}))
        if not allow_unknown:
            self._known.require({wanted.task})

    def secrets(self, view: JobView) -> list[str]:
        """List the references to secrets in the args of a job; those of your own tasks are not known."""
        is_ours, holders = self._known.is_built_in(view.task), self._known.features.holders
        return list(references(view.args, holders)) if is_ours else []

    def _changes(self, definitions: Sequence[Definition], by: str, allow_unknown: bool) -> list[Change]:
        """Check definitions and make their jobs. Args of tasks of this process were checked when they were bound."""
        tasks = {definition.task for definition in definitions}
        described = self._known.described(tasks)
        for each in definitions:
            check_definition(each)
            self._known.check_args(each.task, each.args, described, each.policies.run_args)
        if not allow_unknown:
            self._known.require(tasks)
        now, bounded = self._clock.now(), self._bounded(definitions)
        return [
            lifecycle.create(self._chance.id(now), each, now, self._chance, by, each.queue in bounded)
            for each in definitions
        ]

    def _bounded(self, definitions: Sequence[Definition]) -> frozenset[str]:
        """List the queues with a bound, if a job is to run at once."""
        at_once = any(each.policies.first_run.is_now for each in definitions)
        return self._store.queue.bounded() if at_once else frozenset()

    def make(self, definition: Definition, *, by: str = "", allow_unknown: bool = False) -> tuple[JobView, bool]:
        """Create one job; return it, and whether it is new: a job that holds the key already is returned as it is."""
        self._known.check_own(definition.task, definition.args)
        with self._sending([definition]) as sending:
            (change,) = self._changes(sending.definitions, by, allow_unknown)
            (job_id,) = sending.job_ids = self._store.jobs.add([change], after=self._followers([change]))
        new = job_id == change.job.id
        return JobView.after(change, ()) if new else self.get(job_id), new

    def _followers(self, changes: Sequence[Change]) -> dict[UUID, UUID]:
        """Return the new jobs that follow another, by id; the other may be made in the same call."""
        following = [change.job for change in changes if change.job.policies.after is not None]
        together = {change.job.definition.key: change.job.id for change in changes} if following else {}
        found: dict[UUID, UUID] = {}
        for job in following:
            try:
                found[job.id] = self._followed(job.policies.after)
            except NotFound:
                if job.policies.after not in together:
                    raise
                found[job.id] = together[job.policies.after]
        for job_id in found:
            _refuse_circle(job_id, found)
        return found

    def _other_followed(self, job_id: UUID, before: str | None, ref: str | None) -> UUID | None:
        """Return the job that an edit lets this one follow, if it is another one than before."""
        if ref is None or ref == before:
            return None
        after = self._followed(ref)
        if job_id in self._store.jobs.chain(after):
            raise Invalid(f"after: {ref!r} runs after this job itself: neither would ever begin.")
        return after

    def _followed(self, ref: str | None) -> UUID:
        try:
            return self.get(ref or "").id
        except NotFound as error:
            raise NotFound(f"after: {error}") from None

    def create_copies(
        self,
        definition: Definition,
        args: Sequence[Json],
        *,
        connection: object | None = None,
        allow_unknown: bool = False,
    ) -> list[UUID]:
        """Create jobs that differ only in their args: checks and rules run for one, the others are copies."""
        if is_limited(definition.policies):  # their args may decide which of them share a limit
            each = [replace(definition, args=one) for one in args]
            return self.create(each, connection=connection, allow_unknown=allow_unknown)
        check_definition(definition)
        described = self._known.described({definition.task})
        for text in args:
            self._known.check_args(definition.task, text, described, definition.policies.run_args)
        if not allow_unknown:
            self._known.require({definition.task})
        with self._sending([definition]) as sending:
            now, chance = self._clock.now(), self._chance
            first = replace(sending.definitions[0], args=args[0])
            original = lifecycle.create(chance.id(now), first, now, chance)
            others = chance.ids(now, len(args) - 1)
            copies = Copies(others, chance.ids_as_bytes(now, len(others)), args[1:])
            self._store.jobs.add_copies(original, copies, connection)
            sending.job_ids = [original.job.id, *others]
            return list(sending.job_ids)

    def edit(
        self,
        ref: Ref,
        change: Callable[[Definition], Definition],
        *,
        by: str = "",
        allow_unknown: bool = False,
        expected_version: int | None = None,
    ) -> JobView:
        """Edit a job; `change` gets the current definition under the job's lock.

        With an `expected_version` the job is changed only if it still has that version; else Stale.
        """

        def rule(job: Job, lives: Sequence[Live], _: Any) -> Change:
            if expected_version is not None and job.facts.version != expected_version:
                raise Stale(f"This job has version {job.facts.version} by now, not {expected_version}: read it again.")
            wanted = change(job.definition)
            check_definition(wanted)
            self._check_edit(job.definition, wanted, described)
            return lifecycle.edit(job, lives, wanted, self._clock.now(), self._chance, by)

        job_id = self.resolve(ref)
        current = self.get(job_id).definition
        wanted = change(current)
        described = self._known.described({wanted.task})
        if not allow_unknown:
            self._known.require({wanted.task})
        after = self._other_followed(job_id, current.policies.after, wanted.policies.after)
        return self._command(job_id, rule, after=after)

    def _check_edit(self, before: Definition, wanted: Definition, described: Mapping[str, TaskSchema]) -> None:
        """Refuse changed args that do not fit the task. Unchanged args may be older than the task, and stay."""
        if self._known.is_built_in(wanted.task) or (before.task, before.args) != (wanted.task, wanted.args):
            self._known.check_own(wanted.task, wanted.args)
            self._known.check_args(wanted.task, wanted.args, described, wanted.policies.run_args)

    # -- commands

    def pause(self, ref: Ref, *, by: str = "") -> JobView:
        """Pause a job: after the return nothing of it starts, except later runs by hand."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.pause(job, lives, self._clock.now(), self._chance, by)
        )

    def resume(self, ref: Ref, *, by: str = "") -> JobView:
        """Resume a job, without catching up."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.resume(job, lives, self._clock.now(), self._chance, by)
        )

    def cancel(self, ref: Ref, *, by: str = "") -> JobView:
        """Cancel a job for good."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.cancel(job, lives, self._clock.now(), self._chance, by)
        )

    def delete(self, ref: Ref, *, by: str = "", declined: bool = True) -> Deleted:
        """Delete a job: no answer shows it any more. A declared one stays deleted, unless `declined` is off.

        Return the key whose declaration makes no job any more, if there is one, and the stop of its runs.
        """
        stops = list[Stop | None]()

        def rule(job: Job, lives: Sequence[Live], _: Execution | None) -> Change:
            change = lifecycle.delete(job, lives, self._clock.now(), self._chance, by)
            stops[:] = [JobView.after(change, lives).stop]
            return change

        key = self._store.jobs.delete(self.resolve(ref), rule, declined_by=by if declined else None)
        return Deleted(key, stops[0] if stops else None)

    def retry(self, ref: Ref, *, by: str = "", from_start: bool = False) -> JobView:
        """Retry the failed occurrence; a workflow continues with its failed steps, or begins again (`from_start`)."""

        def rule(job: Job, lives: Sequence[Live], last: Execution | None) -> Change:
            if from_start and last is not None:
                last = replace(last, checkpoint=self._store.steps.anew(last))
            return lifecycle.retry(job, lives, last, self._clock.now(), self._chance, by)

        return self._command(ref, rule, wants_last=True)

    def run(self, ref: Ref, args: Mapping[str, Any] | None = None, *, by: Caller | str = "") -> JobView:
        """Run the job once more, now; the args are merged over the job's. The schedule does not move.

        A `Caller` who is not an admin may set only the job's `run_args`: Forbidden. A plain name may set all.
        """
        if args is not None:
            encode(args)  # Invalid for what is not JSON
        return self._run(ref, by, None if args is None else lambda job: encode(merge(decode(job.args), args)))

    def run_again(self, execution: Execution | Live, *, by: Caller | str = "") -> JobView:
        """Run the job of an execution once more, with the args of that execution; of a step, the whole run."""
        args = None if execution.step else execution.args
        return self._run(execution.job_id, by, None if args is None else lambda _: args)

    def _run(self, ref: Ref, by: Caller | str, wanted: Callable[[Definition], Json] | None) -> JobView:
        caller, job_id = trusted(by), self.resolve(ref)
        described = self._known.described({self.get(job_id).task}) if wanted is not None else {}

        def rule(job: Job, lives: Sequence[Live], _: Any) -> Change:
            args = job.definition.args if wanted is None else wanted(job.definition)
            other = None if args == job.definition.args else args
            change = lifecycle.run(job, lives, other, self._clock.now(), self._chance, caller.name, caller.role)
            if other is not None:
                self._known.check_own(job.definition.task, other)
                self._known.check_args(job.definition.task, other, described)
            return change

        return self._command(job_id, rule)

    def restart(self, ref: Ref, *, by: str = "") -> JobView:
        """Restart an ended job as new."""
        return self._command(
            ref, lambda job, lives, _: lifecycle.restart(job, lives, self._clock.now(), self._chance, by)
        )

    def bulk(self, action: str, refs: Iterable[Ref], *, by: str = "") -> dict[Ref, OstinatoError | Stop | None]:
        """Do one action for many jobs, each in a transaction of its own; return errors, and stops of runs."""
        command = self._actions().get(action)
        if command is None:
            raise Invalid(f"There is no action {action!r}; there are {', '.join(self._actions())}.")
        answers: dict[Ref, OstinatoError | Stop | None] = {}
        for ref in refs:
            try:
                answers[ref] = command(ref, by=by).stop
            except OstinatoError as error:
                answers[ref] = error
        return answers

    def _actions(self) -> dict[str, Callable[..., JobView | Deleted]]:
        return {
            "pause": self.pause, "resume": self.resume, "cancel": self.cancel, "delete": self.delete,
            "retry": self.retry, "run": self.run, "restart": self.restart,
        }  # fmt: skip

    def _command(self, ref: Ref, rule: Rule, wants_last: bool = False, after: UUID | None = None) -> JobView:
        """Apply a command and return the job as the command left it; a worker may change it at once."""
        found: list[Live] = []

        def noting(job: Job, lives: Sequence[Live], last: Execution | None) -> Change:
            found[:] = lives
            return rule(job, lives, last)

        return JobView.after(self._store.jobs.change(self.resolve(ref), noting, wants_last, after), found)


def _refuse_circle(job_id: UUID, after: Mapping[UUID, UUID]) -> None:
    way, current = {job_id}, after.get(job_id)
    while current is not None:
        if current in way:
            raise Invalid("after: these jobs run after each other: none of them would ever begin.")
        way.add(current)
        current = after.get(current)
