"""Executions: list, get, cancel, release; and their logs, a page at a time."""

from typing import Annotated, Final
from uuid import UUID

from ostinato.core.access import Role
from ostinato.core.errors import NotFound
from ostinato.endpoints.table import Ask, InPath, JobRef, Table, header
from ostinato.shapes.executions import ExecutionAnswer, ExecutionList, LogAnswer, LogQuery
from ostinato.shapes.queries import AllExecutionsQuery, CancelQuery, ExecutionQuery, refuse_both

TABLE = Table("executions")

ExecutionId = Annotated[str, InPath("id", "The id of an execution.")]


@TABLE.get("/jobs/{id}/executions", Role.VIEWER)
def list_executions_of(ask: Ask, ref: JobRef, asked: ExecutionQuery) -> ExecutionList:
    """List the executions of a job, the newest first."""
    return _page(ask, ref, asked)


@TABLE.get("/executions", Role.VIEWER)
def list_executions(ask: Ask, asked: AllExecutionsQuery) -> ExecutionList:
    """List executions, the newest first."""
    return _page(ask, asked.job, asked)


@TABLE.get("/executions/{id}", Role.VIEWER)
def get_execution(ask: Ask, execution: ExecutionId) -> ExecutionAnswer:
    """Get an execution, queued, running or ended."""
    return ExecutionAnswer.of(ask.service.executions.get(id_of(execution)))


@TABLE.post("/executions/{id}/cancel", Role.OPERATOR)
def cancel_execution(ask: Ask, execution: ExecutionId, asked: CancelQuery) -> ExecutionAnswer:
    """Ask a running execution to stop, or cancel a queued one. A recurring job continues."""
    return ExecutionAnswer.of(ask.service.executions.cancel(id_of(execution), by=ask.by.name, force=asked.force))


@TABLE.post("/executions/{id}/release", Role.OPERATOR)
def release_execution(ask: Ask, execution: ExecutionId) -> ExecutionAnswer:
    """Take a running execution from its worker, and queue it again. A late result is rejected."""
    return ExecutionAnswer.of(ask.service.executions.release(id_of(execution), by=ask.by.name))


def _page(ask: Ask, job: str | None, asked: ExecutionQuery) -> ExecutionList:
    page = ask.service.executions.search(
        job, states=asked.status, task=asked.task, limit=asked.limit, offset=asked.offset, cursor=asked.cursor
    )
    refuse_both(asked)
    return ExecutionList(
        executions=[ExecutionAnswer.of(view) for view in page.items],
        total=page.total, limit=asked.limit, offset=asked.offset, cursor=page.cursor,
    )  # fmt: skip


def id_of(text: str) -> UUID:
    """Read an id from a path; NotFound if it is not an id."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no execution {text!r}; an id is a UUID.") from None


# -- Logs of executions, a page at a time; rest/endpoints.py also has them as text and as a stream

USUAL_LINES: Final = 1000
LAST_LINE: Final = header("Last-Event-ID", "A stream continues after this line.", 20)


@TABLE.get("/executions/{id}/log", Role.VIEWER, headers=(LAST_LINE,))
def get_log(ask: Ask, execution: ExecutionId, asked: LogQuery) -> LogAnswer:
    """Read the log, stdout and stderr of an execution, also while it runs.

    With `Accept: text/event-stream` lines are streamed live, with progress as `progress`. After the execution ends,
    `cut` (if the log was full) and `end` follow. `Last-Event-ID` (or `after`) continues without a gap.
    """
    limit = asked.limit or USUAL_LINES
    return LogAnswer.of(ask.service.executions.log(id_of(execution), after=asked.after, level=asked.level, limit=limit))
