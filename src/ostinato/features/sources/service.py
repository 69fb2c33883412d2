"""Commands and questions about sources.

A source is a job (task `fetch`, key `source:NAME`), so all rules of jobs hold for it; this module turns definitions
into jobs. A definition is plain values, from YAML or JSON; Invalid names the wrong field.

    sources = service.part(SourceService)
    sources.list()                          every source, by name                       [SourceView]
    sources.get("us_gdp")                   one of them; NotFound                       SourceView
    sources.create(definition, here)        a new one; Conflict if the name is taken    SourceView
    sources.replace(name, definition, here) the whole definition anew                   SourceView
    sources.edit(name, changes, here)       some fields of it (null removes one)        SourceView
    sources.plan(definitions, here)         what `apply` would do; changes nothing      [Planned]
    sources.apply(definitions, here)        create and change; with prune delete the others
    sources.run(name)                       an extra run now; `allow_deletions` lifts   SourceView
                                            limits.maxDeleted for it
    sources.delete(name, with_data=False)   the definition, and its rows if asked       rows deleted
    sources.records(name, limit)            the newest rows, by column                  [dict]
    sources.states(name)                    how far it has read, by part                [SourceState]
    sources.set_state(name, cursor)         read on from there                          SourceState
    sources.reset_state(name)               read everything again                       rows forgotten
    sources.test(definition, here)          one page fetched and mapped, nothing stored Tried

`here` comes from the caller: the zone of schedules that name none, and the addresses that may be called.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ostinato.core.access import Caller
from ostinato.core.auth import REFERENCE
from ostinato.core.builtin import NOTHING_ALLOWED, Permits
from ostinato.core.errors import BudgetSpent, Conflict, Invalid, NotFound, StoreError, StoreUnavailable
from ostinato.core.model import Definition, Json, WaitsFor
from ostinato.core.payload import check_json
from ostinato.core.read_models import JobFilter, LastRun
from ostinato.core.schedule import next_after
from ostinato.features.sources import FEATURE
from ostinato.features.sources.databases import ForeignDatabases, with_plain_errors
from ostinato.features.sources.rows import SourceRecords
from ostinato.features.sources.rules import Source, definition_of, key_of, read_source, source_of
from ostinato.features.sources.rules.definition import FirstFetch
from ostinato.features.sources.rules.jobs import TASK, grid_of, is_source, written_of
from ostinato.features.sources.rules.windows import read_cell
from ostinato.features.sources.states import WHOLE, SourceState, SourceStates
from ostinato.service import Service
from ostinato.service.views import JobView

if TYPE_CHECKING:
    from ostinato.features.sources.fetch.run import Tried

PAGE_LIMIT: Final = 250
MOST_RECORDS: Final = 1000
MOST_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Settings of a caller: the zone of schedules that name none, the allowed addresses and the granted secrets."""

    timezone: str = "UTC"
    permits: Permits = NOTHING_ALLOWED


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source, its job, and the end of its newest run."""

    name: str
    written: Mapping[str, Any]  # the definition as the user wrote it
    source: Source | None  # None if an edit of the job has made it unreadable
    flaw: str
    job: JobView
    last: LastRun | None
    now: datetime

    @property
    def in_period(self) -> bool:
        """True if a retry period has begun and is not over."""
        begun, period = self.job.facts.period_start, self.job.definition.policies.retry_reset_period
        return begun is not None and period is not None and self.now < begun + period

    @property
    def period_start(self) -> datetime | None:
        """The start of the current retry period."""
        return self.job.facts.period_start if self.in_period else None

    @property
    def retry_count(self) -> int:
        """Failures within the current period."""
        return self.job.facts.period_failures if self.in_period else 0

    @property
    def next_retry_at(self) -> datetime | None:
        """The time of the next retry: after a backoff, or when the budget comes back. None: no backoff."""
        waiting = [live.run_at for live in self.job.lives if live.waits_for is WaitsFor.TIME and live.failures]
        return min(waiting, default=None) or self.job.facts.reset_at


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan for one source: created, changed, unchanged, deleted or kept (not in the files, not pruned)."""

    name: str
    change: str
    next_run_at: datetime | None
    fields: tuple[str, ...] = ()  # that differ


class SourceService:
    """Commands and questions about sources."""

    def __init__(self, service: Service) -> None:
        self._store, self._clock, self._jobs, self._app = service.store, service.clock, service.jobs, service.app
        self._records = self._store.part(SourceRecords)
        self._foreign = ForeignDatabases(self._records.places)
        self._states = self._store.part(SourceStates)

    # -- questions

    def list(self) -> list[SourceView]:
        """List the sources, by name."""
        views, cursor = list[JobView](), None
        while True:
            page = self._jobs.search(JobFilter(task=TASK, app=self._app or None), limit=PAGE_LIMIT, cursor=cursor)
            views += [view for view in page.items if is_source(view.definition)]
            cursor = page.cursor
            if cursor is None:
                break
        last = self._jobs.last_runs(views) if views else {}
        found = [self._view(view, last.get(view.id)) for view in views]
        return sorted(found, key=lambda each: each.name)

    def get(self, name: str) -> SourceView:
        """Return one source."""
        try:
            view = self._jobs.get(key_of(name))
        except NotFound:
            raise NotFound(f"There is no source {name!r}.") from None
        return self._view(view, self._jobs.last_runs([view]).get(view.id))

    def records(self, name: str, limit: int = 20) -> Sequence[dict[str, Any]]:
        """Return the newest rows of a source, by column."""
        if not 1 <= limit <= MOST_RECORDS:
            raise Invalid(f"limit must be from 1 to {MOST_RECORDS}, not {limit}.")
        target = _readable(self.get(name)).target
        with _as_it_stands():
            return self._foreign.ask(target, lambda: self._records.newest(target, limit))

    def states(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[SourceState]:
        """List how far a source has read, by part, after one of them."""
        return self._states.list(self.get(name).job.id, after, limit)

    def set_state(self, name: str, cursor: object, *, part: str = WHOLE) -> SourceState:
        """Let the next run ask for records from this value on; Conflict while a run is in progress."""
        view = self.get(name)
        asked = _readable(view).incremental
        if asked is None or asked.by_rows:
            raise Conflict(f"The source {name!r} has no state: write `incremental` with a `cursor`.")
        try:
            cell = read_cell(cursor, asked)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Invalid(f"cursor: {error}") from None
        if cell is None:
            raise Invalid("cursor is missing: name a value, or reset the state.")
        now = self._clock.now()
        self._states.set(view.job.id, cell, now, part)
        return SourceState(part, cell, now)

    def reset_state(self, name: str, *, part: str | None = None) -> int:
        """Forget how far a source has read, in one part or in all; return the number of forgotten states."""
        return self._states.reset(self.get(name).job.id, part)

    def test(self, definition: object, here: SourceContext) -> "Tried":
        """Fetch and map one page of a definition; nothing is stored. Invalid as from `create` or a run."""
        FEATURE.require("The test of a source")
        from ostinato.features.sources.fetch.page import PermanentFailure, TransientFailure
        from ostinato.features.sources.fetch.run import try_source
        from ostinato.store.kernel import Kernel  # imported late: only a test of a source needs these
        from ostinato.task import Signal

        source = _read(definition, here)
        self._check_table(source)

        async def one_page() -> "Tried":
            outgoing = Kernel(self._store, self._clock, self._store.chance).outgoing(asyncio.to_thread, here.permits)
            try:
                return await try_source(source, outgoing, self._clock.now())
            finally:
                await outgoing.close()

        try:
            return asyncio.run(one_page())
        except (TransientFailure, PermanentFailure, Signal) as error:
            raise Invalid(str(error)) from None
        except BudgetSpent as error:
            raise Conflict(str(error)) from None

    # -- commands

    def create(
        self, definition: object, here: SourceContext, *, first_run: FirstFetch | None = None, by: str = ""
    ) -> SourceView:
        """Create a source; its first run is at once, unless `firstRun` or `first_run` says otherwise.

        `first_run` is for a definition that has no word about it.
        """
        source = _first(_read(definition, here), first_run)
        self._check_table(source)
        made = definition_of(source, self._app, self._begins_at(source))
        view, new = self._jobs.make(made, by=by, allow_unknown=True)
        if not new:
            raise Conflict(f"There is a source {source.name!r} already: edit or delete it.")
        if not source.active:
            self._jobs.pause(view.id, by=by)
        return self.get(source.name)

    def replace(self, name: str, definition: object, here: SourceContext, *, by: str = "") -> SourceView:
        """Replace the whole definition of a source. A run in progress is not touched."""
        return self._change(name, lambda _: definition, here, by)

    def edit(self, name: str, changes: object, here: SourceContext, *, by: str = "") -> SourceView:
        """Change some fields of a definition; null removes a field."""
        if not isinstance(changes, Mapping):
            raise Invalid("A change of a source is an object with the fields that change.")

        def merged(written: Mapping[str, Any]) -> object:
            both = {**written, **changes}
            return {field: value for field, value in both.items() if value is not None}

        return self._change(name, merged, here, by)

    def plan(
        self,
        definitions: Sequence[object],
        here: SourceContext,
        *,
        prune: bool = False,
        first_run: FirstFetch | None = None,
    ) -> Sequence[Planned]:
        """Plan the changes of `apply`. All definitions are read first."""
        wanted = self._wanted(definitions, here)
        known = {view.name: view for view in self.list()}
        planned = [self._planned(source, known.get(source.name), first_run) for source in wanted.values()]
        gone = [view for name, view in known.items() if name not in wanted]
        return planned + [
            Planned(view.name, "deleted" if prune else "kept", None if prune else view.job.next_run_at) for view in gone
        ]

    def apply(
        self,
        definitions: Sequence[object],
        here: SourceContext,
        *,
        prune: bool = False,
        first_run: FirstFetch | None = None,
        by: str = "",
    ) -> Sequence[Planned]:
        """Create new sources, change different ones, with `prune` delete the others; return the changes.

        `first_run` is for new sources that have no word about it.
        """
        wanted = self._wanted(definitions, here)
        done = []
        for planned in self.plan(definitions, here, prune=prune, first_run=first_run):
            done.append(planned)
            match planned.change:
                case "created":
                    view = self.create(wanted[planned.name].written, here, first_run=first_run, by=by)
                case "changed":
                    view = self.replace(planned.name, wanted[planned.name].written, here, by=by)
                case "deleted":
                    self.delete(planned.name, by=by)
                    continue
                case _:
                    continue
            done[-1] = replace(planned, next_run_at=view.job.next_run_at)
        return done

    def run(self, name: str, *, allow_deletions: bool = False, by: Caller | str = "") -> SourceView:
        """Run a source once more, now; the schedule does not move.

        Only an admin may allow deletions, unless the policy `run_args` of the job names `allow_deletions`.
        """
        view = self.get(name)
        source = _readable(view)
        if not source.active:
            raise Conflict(f"The source {name!r} is {source.status}: only an active one runs.")
        self._jobs.run(view.job.id, {"allow_deletions": True} if allow_deletions else None, by=by)
        return self.get(name)

    def delete(self, name: str, *, with_data: bool = False, by: str = "") -> int:
        """Delete a source, and with `with_data` its rows; return their number.

        After the deletion of the job none of its runs stores another page, so no row is left behind.
        """
        view = self.get(name)
        if not with_data:
            self._jobs.delete(view.job.id, by=by)
            if view.source is not None and not view.source.database:
                with suppress(StoreError, Invalid):  # an empty table of ours may stay
                    self._records.forget(view.source.target)
            return 0
        target = _readable(view).target
        # An unusable database is refused before anything is deleted.
        with _as_it_stands():
            self._foreign.ask(target, lambda: self._records.newest(target, 1))
        self._jobs.delete(view.job.id, by=by)
        with with_plain_errors(target):
            self._records.forget(target)
            return self._records.delete_rows(target)

    # -- internals

    def _begins_at(self, source: Source) -> datetime | None:
        """Return the time from which the schedule of a new source is counted, if it goes by its rows."""
        if source.first_run is not FirstFetch.FROM_ROWS or not source.active:
            return None
        try:
            newest = self._foreign.ask(source.target, lambda: self._records.newest_at(source.target))
        except (StoreUnavailable, Invalid):
            if not source.database:
                raise
            return None  # as for `_check_table`: only the worker may reach it
        return grid_of(source, newest, self._clock.now())

    def _wanted(self, definitions: Sequence[object], here: SourceContext) -> dict[str, Source]:
        if len(definitions) > MOST_AT_ONCE:
            raise Invalid(f"At most {MOST_AT_ONCE} sources at once.")
        wanted: dict[str, Source] = {}
        for definition in definitions:
            source = _named(definition, here)
            if source.name in wanted:
                raise Invalid(f"name: two sources are called {source.name!r}.")
            wanted[source.name] = source
        return wanted

    def _planned(self, source: Source, view: SourceView | None, first_run: FirstFetch | None) -> Planned:
        now = self._clock.now()
        if view is None:
            first = self._first_time(_first(source, first_run), now)
            return Planned(source.name, "created", first if source.active else None)
        if view.source == source and view.job.definition.name == source.name:
            return Planned(source.name, "unchanged", view.job.next_run_at)
        same = view.source is not None and view.source.schedule == source.schedule
        following = view.job.next_run_at if same else next_after(source.schedule, now, now)
        return Planned(source.name, "changed", following if source.active else None, _differing(view, source))

    def _first_time(self, source: Source, now: datetime) -> datetime | None:
        begins_at = self._begins_at(source)
        if source.first_run is FirstFetch.NEXT or begins_at is not None:
            return next_after(source.schedule, begins_at or now, now)
        return now

    def _change(
        self, name: str, change: Callable[[Mapping[str, Any]], object], here: SourceContext, by: str
    ) -> SourceView:
        before = self.get(name)
        source = _read(change(before.written), here)
        if source.name != name:
            raise Invalid(f"name: a source keeps its name; this one is {name!r}, not {source.name!r}.")
        self._check_table(source)
        was_active = before.source is None or before.source.active
        if was_active and not source.active and before.job.facts.paused_at is None:
            self._jobs.pause(before.job.id, by=by)
        made = definition_of(source, before.job.definition.app)
        self._jobs.edit(before.job.id, lambda old: _merged(old, made), by=by, allow_unknown=True)
        if source.active and not was_active:
            self._begin(before, by)
        return self.get(name)

    def _begin(self, before: SourceView, by: str) -> None:
        """Run a source that has become active at once, if it has never run."""
        if before.job.facts.paused_at is not None:
            self._jobs.resume(before.job.id, by=by)
        if not before.job.facts.completed:
            self._jobs.run(before.job.id, by=by)

    def _check_table(self, source: Source) -> None:
        """Refuse a table that cannot be written to. The worker checks again: another database may be unreachable here.

        A reference may be missing here, and name a database on the worker.
        """
        try:
            self._foreign.ask(source.target, lambda: self._records.look(source.target))
        except StoreUnavailable:
            if not source.database:
                raise
        except Invalid:
            if not REFERENCE.fullmatch(source.database):
                raise

    def _view(self, job: JobView, last: LastRun | None) -> SourceView:
        name = (job.key or "").removeprefix(key_of(""))
        source, flaw, written = None, "", dict[str, Any]()
        try:
            written = written_of(job.definition)
            source = source_of(job.definition)
        except Invalid as error:
            flaw = str(error)
        return SourceView(name, written, source, flaw, job, last, self._clock.now())


def _read(definition: object, here: SourceContext) -> Source:
    check_json(definition, "A source")
    source = read_source(definition, here.timezone, egress=here.permits.egress)
    zoned: Json = json.dumps(source.written)  # the zone of the settings may change, so the definition stores its own
    if "timezone" not in source.written and here.timezone != "UTC":
        source = read_source({**json.loads(zoned), "timezone": here.timezone}, here.timezone)
    return source


def _first(source: Source, first_run: FirstFetch | None) -> Source:
    """Return a source with this first run, if its definition has no word about it."""
    if first_run is None or {"firstRun", "first_run"} & source.written.keys():
        return source
    return replace(source, first_run=first_run)


def _named(definition: object, here: SourceContext) -> Source:
    """Read one of many definitions; an error names it."""
    try:
        return _read(definition, here)
    except Invalid as error:
        name = definition.get("name") if isinstance(definition, Mapping) else None
        raise Invalid(f"{name}: {error}" if isinstance(name, str) else str(error)) from None


def _readable(view: SourceView) -> Source:
    if view.source is None:
        raise Conflict(f"The definition of {view.name!r} cannot be read: {view.flaw}")
    return view.source


@contextmanager
def _as_it_stands() -> Iterator[None]:
    """Raise Conflict where a stored definition cannot be used now; the request itself is valid."""
    try:
        yield
    except Invalid as error:
        raise Conflict(str(error)) from None


def _merged(old: Definition, made: Definition) -> Definition:
    """Merge a source's definition into its job's; settings that only a job has (retention …) stay."""
    theirs = made.policies
    policies = replace(
        old.policies, first_run=theirs.first_run, max_retries=theirs.max_retries, timeout=theirs.timeout,
        retry_reset_period=theirs.retry_reset_period, when_exhausted=theirs.when_exhausted,
    )  # fmt: skip
    return replace(made, policies=policies, metadata=old.metadata, declared=old.declared)


def _differing(view: SourceView, source: Source) -> tuple[str, ...]:
    names: Iterable[str] = sorted({*view.written, *source.written})
    return tuple(name for name in names if view.written.get(name) != source.written.get(name))
