"""Commands and questions about executions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core import lifecycle
from ostinato.core.errors import Conflict, Invalid, NotFound
from ostinato.core.model import Chance, Change, Execution, Job, Live
from ostinato.core.payload import MOST_LINES, level_of
from ostinato.core.read_models import STATES, LogPage
from ostinato.service.paging import PAGE_LIMIT, Page, check_page, check_words, execution_cursor, execution_key
from ostinato.service.views import ExecutionView, Ref
from ostinato.service.why import Inquiry
from ostinato.store.search import ExecutionKey
from ostinato.store.store import Store

LiveRule = Callable[[Job, Sequence[Live], Live], Change]


class ExecutionService:
    """Commands and questions about executions: queued, running and ended."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, find_job: Callable[[Ref], UUID]) -> None:
        self._store, self._clock, self._chance, self._find_job = store, clock, chance, find_job

    def get(self, execution_id: UUID) -> ExecutionView:
        """Return one execution, live or ended."""
        return self._views([self._find(execution_id)])[0]

    def list(self, job: Ref | None = None, limit: int = 50, before: UUID | None = None) -> list[ExecutionView]:
        """List executions, the newest first."""
        last = None if before is None else self._find(before)
        key = None if last is None else ExecutionKey(last.id, last.number, last.attempt)
        return list(self.search(job, limit=min(limit, PAGE_LIMIT), cursor=execution_cursor(key)).items)

    def search(
        self,
        job: Ref | None = None,
        *,
        states: Collection[str] = (),
        task: str | None = None,
        limit: int = 50,
        offset: int = 0,
        cursor: str | None = None,
    ) -> Page[ExecutionView]:
        """Search executions, live and ended together; return a page of them, the newest first.

        For one job the order is by occurrence, for all jobs by the time of queueing. States: queued, running,
        completed, failed (timed out and lost ones too), cancelled; none given: all. The total of a task counts the
        executions of jobs that have this task now.
        """
        check_page(limit, offset)
        check_words(task=task)
        for state in states:
            if state not in STATES:
                raise Invalid(f"There is no state {state[:60]!r}; there are {', '.join(STATES)}.")
        job_id = None if job is None else self._find_job(job)
        before = execution_key(cursor)
        found = self._store.search.executions(job_id, states, task, limit, offset, before)
        return Page(tuple(self._views(found.rows)), found.total, execution_cursor(found.last))

    def log(self, execution_id: UUID, *, after: int = 0, level: str | None = None, limit: int = 1000) -> LogPage:
        """Read an execution's log, also while it runs: lines after a number, of at least a level, oldest first."""
        if after < 0:
            raise Invalid(f"Lines are numbered from 1: after= cannot be {after}.")
        if not 1 <= limit <= MOST_LINES:
            raise Invalid(f"limit must be from 1 to {MOST_LINES}, not {limit}.")
        least = level_of(level)
        self._find(execution_id)
        return self._store.logs.read(execution_id, after, least, limit)

    def cancel(self, execution_id: UUID, *, by: str = "", force: bool = False) -> ExecutionView:
        """Stop a running execution, or withdraw a queued one. `force` ends the record of a run that does not stop."""
        return self._command(
            execution_id,
            lambda job, lives, live: lifecycle.cancel_execution(
                job, lives, live, self._clock.now(), self._chance, by, force
            ),
        )

    def release(self, execution_id: UUID, *, by: str = "") -> ExecutionView:
        """Take an execution from its worker and queue it again; a late result is refused."""
        return self._command(
            execution_id,
            lambda job, lives, live: lifecycle.release(job, lives, live, self._clock.now(), self._chance, by),
        )

    def _views(self, found: Sequence[Execution | Live]) -> Sequence[ExecutionView]:
        """Make views of executions; queued ones get a reason."""
        queued = [row for row in found if isinstance(row, Live) and not row.running]
        jobs = self._store.jobs.get(list({row.job_id for row in queued})) if queued else {}
        rows = [(jobs[row.job_id].job, row) for row in queued if row.job_id in jobs]
        obstacles = Inquiry(self._store, self._chance).obstacles(rows, self._clock.now())
        views = map(ExecutionView.of, found)
        return [replace(view, reason=obstacles[view.id]) if view.id in obstacles else view for view in views]

    def _find(self, execution_id: UUID) -> Execution | Live:
        """Find an execution whose job is not deleted."""
        row = self._store.history.find(execution_id)
        if row is None or self._store.jobs.status_of(row.job_id) is None:
            raise NotFound(f"There is no execution {execution_id}.")
        return row

    def _command(self, execution_id: UUID, rule: LiveRule) -> ExecutionView:
        """Apply a command and return the execution as the command left it; a worker may change it at once."""
        row = self._find(execution_id)

        def under_lock(job: Job, lives: Sequence[Live], _: Execution | None) -> Change:
            live = next((each for each in lives if each.id == execution_id), None)
            if live is None:
                raise Conflict("This execution has ended already.")
            return rule(job, lives, live)

        change = self._store.jobs.change(row.job_id, under_lock)
        left: tuple[Execution | Live, ...] = (*change.ended, *change.alter, *change.add)
        return ExecutionView.of(next((each for each in left if each.id == execution_id), row))
