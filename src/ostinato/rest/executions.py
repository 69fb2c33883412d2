"""Endpoints of executions: list, get, cancel, release."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query

from ostinato.core.errors import NotFound
from ostinato.rest.caller import Operator, Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.jobs import Ref
from ostinato.rest.routers import api_router
from ostinato.service import Service
from ostinato.shapes.executions import ExecutionAnswer, ExecutionList
from ostinato.shapes.queries import AllExecutionsQuery, CancelQuery, ExecutionQuery, refuse_both

router = api_router("executions")

ExecutionId = Annotated[str, Path(alias="id", description="The id of an execution.", max_length=200)]


@router.get("/jobs/{id}/executions")
def list_executions_of(
    ref: Ref, asked: Annotated[ExecutionQuery, Query()], service: ServiceDep, by: Viewer
) -> ExecutionList:
    """List the executions of a job, the newest first."""
    return _page(service, ref, asked)


@router.get("/executions")
def list_executions(asked: Annotated[AllExecutionsQuery, Query()], service: ServiceDep, by: Viewer) -> ExecutionList:
    """List executions, the newest first."""
    return _page(service, asked.job, asked)


@router.get("/executions/{id}")
def get_execution(execution: ExecutionId, service: ServiceDep, by: Viewer) -> ExecutionAnswer:
    """Get an execution, queued, running or ended."""
    return ExecutionAnswer.of(service.executions.get(id_of(execution)))


@router.post("/executions/{id}/cancel")
def cancel_execution(
    execution: ExecutionId, asked: Annotated[CancelQuery, Query()], service: ServiceDep, by: Operator
) -> ExecutionAnswer:
    """Ask a running execution to stop, or cancel a queued one. A recurring job continues."""
    return ExecutionAnswer.of(service.executions.cancel(id_of(execution), by=by.name, force=asked.force))


@router.post("/executions/{id}/release")
def release_execution(execution: ExecutionId, service: ServiceDep, by: Operator) -> ExecutionAnswer:
    """Take a running execution from its worker, and queue it again. A late result is rejected."""
    return ExecutionAnswer.of(service.executions.release(id_of(execution), by=by.name))


def _page(service: Service, job: str | None, asked: ExecutionQuery) -> ExecutionList:
    page = service.executions.search(
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
