"""Failed runs in RQ's own monitoring: the message of a failed run becomes a failed RQ job.

A failed attempt with a retry counts as with RQ's `Retry`: the worker has one failure more, and the registry of failed
jobs gets no entry. The retry is a new message; RQ itself never retries.
"""

from collections.abc import Sequence
from uuid import UUID

from rq.job import Job as Entry

from ostinato.core.model import Change
from ostinato.handle import RunFailed
from ostinato.service import ExecutionView
from ostinato.telemetry.reports import Telemetry


class RunTelemetry(Telemetry):
    """Telemetry of one message, which also records the committed changes."""

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
    if not found or not found[0][1].outcome.is_failure:
        return None
    change, ended = found[0]
    if change.retry_of(ended) is not None:
        entry.failure_ttl = 0
    failed = RunFailed(ExecutionView.of(ended))
    failed.__cause__ = TaskTraceback(ended.traceback) if ended.traceback else None
    return failed
