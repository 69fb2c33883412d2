"""The handle that `enqueue` returns: a job to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ostinato.core.errors import Conflict, OstinatoError
from ostinato.core.model import Status
from ostinato.core.times import parse_duration

if TYPE_CHECKING:
    from ostinato.service import ExecutionView, JobView, Service

LONGEST_PAUSE = 0.25  # seconds between two checks; the first pauses are much shorter


class RunFailed(OstinatoError):
    """Error for an awaited run that did not complete; `execution` has the details."""

    def __init__(self, execution: ExecutionView) -> None:
        self.execution = execution
        super().__init__(f"{execution.task} {execution.outcome}: {execution.error or 'no message'}")


class Handle:
    """One enqueued job."""

    def __init__(self, job_id: UUID, scheduler: Callable[[], Service]) -> None:
        self.id = job_id
        self._scheduler = scheduler

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    @property
    def job(self) -> JobView:
        """The job as it is now."""
        return self._scheduler().jobs.get(self.id)

    @property
    def status(self) -> Status:
        return self.job.status

    def wait(self, timeout: str | float | timedelta = "30s") -> ExecutionView:
        """Wait until the job has ended, with any outcome; raise TimeoutError with the reason if it takes longer.

        Raise Conflict if the job was cancelled before it ran.
        """
        for pause in _pauses(timeout):
            if (ended := self._ended()) is not None:
                return ended
            time.sleep(pause)
        raise TimeoutError(self._unfinished(timeout))

    def _unfinished(self, timeout: object) -> str:
        """Say that the job has not ended, and why."""
        reasons = " ".join(self._scheduler().jobs.why(self.id).sentences)
        return f"The job {self.id} is still {self.status} after {timeout}. {reasons}"

    async def await_(self, timeout: str | float | timedelta = "30s") -> ExecutionView:
        """`wait` for async code; it holds a thread only for moments."""
        import asyncio

        from ostinato.engine.threads import few_threads

        for pause in _pauses(timeout):
            if (ended := await few_threads(self._ended)) is not None:
                return ended
            await asyncio.sleep(pause)
        raise TimeoutError(await few_threads(lambda: self._unfinished(timeout)))

    def result(self, timeout: str | float | timedelta = "30s") -> Any:
        """Return the task's result; raise RunFailed if it did not complete."""
        return _result(self.wait(timeout))

    async def aresult(self, timeout: str | float | timedelta = "30s") -> Any:
        """`result` for async code."""
        return _result(await self.await_(timeout))

    def cancel(self, by: str = "") -> JobView:
        """Cancel the job; `stop` of the answer tells whether its run is still running."""
        return self._scheduler().jobs.cancel(self.id, by=by)

    async def acancel(self, by: str = "") -> JobView:
        """`cancel` for async code."""
        from ostinato.engine.threads import few_threads

        return await few_threads(lambda: self.cancel(by))

    def _ended(self) -> ExecutionView | None:
        view = self.job
        cancelled = view.facts.cancelled_at is not None
        if view.lives or not (cancelled or view.facts.ended_at):
            return None
        newest = self._scheduler().executions.list(job=self.id, limit=1)
        if not newest and cancelled:
            raise Conflict(f"The job {self.id} was cancelled before it ran.")
        return newest[0] if newest and newest[0].outcome is not None else None


def _pauses(timeout: str | float | timedelta) -> Iterator[float]:
    """Yield the pauses between two checks until the time is over; there is always one check."""
    deadline, pause = time.monotonic() + parse_duration(timeout).total_seconds(), 0.005
    while True:
        yield pause
        if time.monotonic() >= deadline:
            return
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _result(ended: ExecutionView) -> Any:
    if ended.status != "completed":
        raise RunFailed(ended)
    return ended.result
