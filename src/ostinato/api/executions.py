"""Executions: look at them, stop or release one."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query

from ostinato.api.caller import Operator, Viewer
from ostinato.api.desk import Desk
from ostinato.api.jobs import Ref
from ostinato.api.routers import api_router
from ostinato.core.errors import NotFound
from ostinato.scheduler import Scheduler
from ostinato.wire.executions import ExecutionAnswer, ExecutionList
from ostinato.wire.questions import AllExecutionsQuery, CancelQuery, ExecutionQuery, refuse_both

router = api_router("executions")

ExecutionId = Annotated[str, Path(alias="id", description="The id of an execution.", max_length=200)]


@router.get("/jobs/{id}/executions")
def list_executions_of(
    ref: Ref, asked: Annotated[ExecutionQuery, Query()], desk: Desk, by: Viewer
) -> ExecutionList:
    """The executions of a job, the newest first."""
    return _page(desk, ref, asked)


@router.get("/executions")
def list_executions(asked: Annotated[AllExecutionsQuery, Query()], desk: Desk, by: Viewer) -> ExecutionList:
    """Executions, the newest first."""
    return _page(desk, asked.job, asked)


@router.get("/executions/{id}")
def get_execution(execution: ExecutionId, desk: Desk, by: Viewer) -> ExecutionAnswer:
    """One execution, queued, running or ended."""
    return ExecutionAnswer.of(desk.executions.get(id_of(execution)))


@router.post("/executions/{id}/cancel")
def cancel_execution(
    execution: ExecutionId, asked: Annotated[CancelQuery, Query()], desk: Desk, by: Operator
) -> ExecutionAnswer:
    """Ask a running one to stop, or take a queued one back. A recurring job goes on."""
    return ExecutionAnswer.of(desk.executions.cancel(id_of(execution), by=by.name, force=asked.force))


@router.post("/executions/{id}/release")
def release_execution(execution: ExecutionId, desk: Desk, by: Operator) -> ExecutionAnswer:
    """Take a running one from its worker and queue it again; the worker's late result is refused."""
    return ExecutionAnswer.of(desk.executions.release(id_of(execution), by=by.name))


def _page(desk: Scheduler, job: str | None, asked: ExecutionQuery) -> ExecutionList:
    page = desk.executions.search(
        job, states=asked.status, task=asked.task, limit=asked.limit, offset=asked.offset, cursor=asked.cursor
    )
    refuse_both(asked)
    return ExecutionList(
        executions=[ExecutionAnswer.of(view) for view in page.items],
        total=page.total, limit=asked.limit, offset=asked.offset, cursor=page.cursor,
    )  # fmt: skip


def id_of(text: str) -> UUID:
    """The id in an address; anything else is nobody's."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no execution {text!r}; an id is a UUID.") from None
