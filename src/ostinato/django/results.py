"""Django's TaskResult, made of a job and its executions."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import Signature
from typing import Any, Final, Self

from django.conf import settings
from django.utils import timezone

from ostinato.core.model import Status
from ostinato.core.payload import decode
from ostinato.django.framework import TaskError, TaskResult, TaskResultStatus
from ostinato.django.rules import as_given
from ostinato.service import ExecutionView, JobView
from ostinato.task import Context

DJANGO: Final = "django"  # the key in the metadata of a job
ENDED: Final = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
STATUS: Final = {
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
    Status.RUNNING: TaskResultStatus.RUNNING,
}
# The exceptions of executions that ended without one of their task.
OTHER_ENDS: Final = {
    "timed_out": "builtins.TimeoutError",
    "cancelled": "asyncio.exceptions.CancelledError",
    "lost": "ostinato.core.errors.LeaseLost",
}
NO_CLASS: Final = "ostinato.handle.RunFailed"


@dataclass(frozen=True, slots=True)
class EnqueueNote:
    """The facts of an enqueue that a job has no field for; they are in its metadata."""

    positional: int = 0
    backend: str = ""
    priority: int = 0
    run_after: datetime | None = None

    @classmethod
    def of(cls, metadata: str) -> Self:
        """Read the note of a job; one that was made elsewhere has none."""
        stored = decode(metadata, "metadata").get(DJANGO, {})
        at = stored.get("run_after")
        return cls(
            stored.get("positional", 0), stored.get("backend", ""), stored.get("priority", 0),
            None if at is None else datetime.fromisoformat(at),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        stored = {"positional": self.positional, "backend": self.backend, "priority": self.priority}
        return stored if self.run_after is None else {**stored, "run_after": self.run_after.isoformat()}


def result_of(job: JobView, runs: Sequence[ExecutionView], task: Any, parameters: Signature) -> Any:
    """Return the result of a job whose executions are `runs`, the newest first."""
    note = EnqueueNote.of(job.definition.metadata)
    call = as_given(parameters, job.args, note.positional)
    started = [run.started_at for run in runs if run.started_at is not None]
    ended = job.status in ENDED
    result = TaskResult(
        task=task if not note.backend else task.using(
            priority=note.priority, queue_name=job.definition.queue, run_after=note.run_after, backend=note.backend
        ),
        id=str(job.id),
        status=STATUS.get(job.status, TaskResultStatus.READY),
        enqueued_at=as_django(job.facts.created_at),
        started_at=as_django(min(started, default=None)),
        last_attempted_at=as_django(max(started, default=None)),
        finished_at=as_django(_finished_at(job, runs)) if ended else None,
        args=call.args,
        kwargs=call.kwargs,
        backend=note.backend or task.backend,
        errors=[_error_of(run) for run in reversed(runs) if run.error_kind is not None],
        worker_ids=[str(run.worker_id) for run in reversed(runs) if run.worker_id is not None],
    )  # fmt: skip
    if job.status is Status.COMPLETED:
        object.__setattr__(result, "_return_value", next((run.result for run in runs), None))
    return result


def result_in_run(context: Context, task: Any, parameters: Signature, named: dict[str, Any]) -> Any:
    """Return the result of a run that begins now; the ids of earlier workers are not known to it."""
    live, note = context.live, EnqueueNote.of(context.definition.metadata)
    call = as_given(parameters, named, note.positional)
    return TaskResult(
        task=task,
        id=str(live.job_id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=as_django(live.queued_at),
        started_at=as_django(live.started_at),
        last_attempted_at=as_django(live.started_at),
        finished_at=None,
        args=call.args,
        kwargs=call.kwargs,
        backend=note.backend or task.backend,
        errors=[],
        worker_ids=[*[""] * (live.execution_number - 1), str(live.worker_id)],
    )


def error_of(error: BaseException) -> Any:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(traceback.format_exception(error)),
    )


def as_django(instant: datetime | None) -> datetime | None:
    """Return an instant as Django has them: without USE_TZ local and naive."""
    return instant if instant is None or settings.USE_TZ else timezone.make_naive(instant)


def as_ours(given: datetime) -> datetime:
    """Return a time of Django as an instant: without USE_TZ it may be local and naive."""
    return given if timezone.is_aware(given) else timezone.make_aware(given)


def _finished_at(job: JobView, runs: Sequence[ExecutionView]) -> datetime | None:
    return next((run.finished_at for run in runs), None) or job.facts.ended_at or job.facts.cancelled_at


def _error_of(run: ExecutionView) -> Any:
    path = run.account.raised or OTHER_ENDS.get(run.outcome or "", NO_CLASS)
    return TaskError(exception_class_path=path, traceback=run.traceback or f"{run.error_kind}: {run.error}\n")
