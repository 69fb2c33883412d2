"""Commands and questions about executions."""

from collections.abc import Callable, Sequence
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core import lifecycle
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Change, Execution, Job, Live, Luck
from ostinato.scheduler.jobs import PAGE, JobDesk, Ref
from ostinato.scheduler.views import ExecutionView
from ostinato.store.history import Position
from ostinato.store.store import Store

LiveRule = Callable[[Job, Sequence[Live], Live], Change]


class ExecutionDesk:
    """Attempts: queued, running and ended."""

    def __init__(self, store: Store, clock: Clock, luck: Luck, jobs: JobDesk) -> None:
        self._store, self._clock, self._luck, self._jobs = store, clock, luck, jobs

    def get(self, execution_id: UUID) -> ExecutionView:
        """One execution, wherever it stands."""
        return ExecutionView.of(self._find(execution_id))

    def list(
        self, job: Ref | None = None, limit: int = 50, before: UUID | None = None
    ) -> list[ExecutionView]:
        """The newest first: what is live, then what has ended."""
        job_id = None if job is None else self._jobs.resolve(job)
        limit = min(limit, PAGE)
        anchor = None if before is None else self._find(before)
        live: list[Live] = []
        if anchor is None or isinstance(anchor, Live):
            live = self._store.history.live(limit, before, job_id)
        ended = self._ended(job_id, limit - len(live), anchor) if len(live) < limit else []
        return [ExecutionView.of(row) for row in live] + [ExecutionView.of(row) for row in ended]

    def cancel(self, execution_id: UUID, *, by: str = "", force: bool = False) -> ExecutionView:
        """Ask a running one to stop, or take a queued one back. `force` ends the record of one that does not stop."""
        return self._command(
            execution_id,
            lambda job, lives, live: lifecycle.cancel_execution(
                job, lives, live, self._clock.now(), self._luck, by, force
            ),
        )

    def release(self, execution_id: UUID, *, by: str = "") -> ExecutionView:
        """Take it from its worker and queue it again; a late result is refused."""
        return self._command(
            execution_id,
            lambda job, lives, live: lifecycle.release(job, lives, live, self._clock.now(), self._luck, by),
        )

    def _ended(self, job_id: UUID | None, limit: int, anchor: Execution | Live | None) -> Sequence[Execution]:
        ended = anchor if isinstance(anchor, Execution) else None
        if job_id is None:
            return self._store.history.page(limit, None if ended is None else ended.id)
        position = None if ended is None else Position(ended.number, ended.attempt)
        return self._store.history.of_job(job_id, limit, position)

    def _find(self, execution_id: UUID) -> Execution | Live:
        row = self._store.history.find(execution_id)
        if row is None:
            raise NotFound(f"There is no execution {execution_id}.")
        return row

    def _command(self, execution_id: UUID, rule: LiveRule) -> ExecutionView:
        row = self._find(execution_id)

        def under_lock(job: Job, lives: Sequence[Live], _: Execution | None) -> Change:
            live = next((each for each in lives if each.id == execution_id), None)
            if live is None:
                raise Conflict("This execution has ended already.")
            return rule(job, lives, live)

        self._store.jobs.change(row.job_id, under_lock)
        return self.get(execution_id)
