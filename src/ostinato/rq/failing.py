"""Failed runs as RQ's own monitoring counts them: the message of a failed run is a failed RQ job.

An attempt that is retried counts as RQ counts an attempt with `Retry`: the worker has one failure more, and the
registry of failed jobs holds nothing. The retry is a message of its own; RQ never retries.
"""

from collections.abc import Sequence
from uuid import UUID

from rq.job import Job as Entry

from ostinato.app.handle import RunFailed
from ostinato.core.model import Change, Result
from ostinato.service import ExecutionView
from ostinato.telemetry.reports import Telemetry

FAILURES = frozenset({Result.FAILED, Result.TIMED_OUT, Result.LOST})


class RunTelemetry(Telemetry):
    """Telemetry of one message, which keeps the committed changes."""

    changes: tuple[Change, ...] = ()

    def changed(self, changes: Sequence[Change]) -> None:
        self.changes += tuple(changes)
        super().changed(changes)


class TaskTraceback(Exception):
    """Traceback of a task as text, shown as the cause of RunFailed."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def failure(execution_id: UUID, changes: Sequence[Change], entry: Entry) -> RunFailed | None:
    """Find the failure of an execution; let RQ forget the message if a retry follows."""
    found = [(change, ended) for change in changes for ended in change.ended if ended.id == execution_id]
    if not found or found[0][1].result not in FAILURES:
        return None
    change, ended = found[0]
    if change.retry_of(ended) is not None:
        entry.failure_ttl = 0
    failed = RunFailed(ExecutionView.of(ended))
    failed.__cause__ = TaskTraceback(ended.traceback) if ended.traceback else None
    return failed
