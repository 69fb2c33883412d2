"""Controls of jobs: pause, resume, cancel, retry, run, restart; for one job or for many."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from ostinato.core.access import Caller, Role
from ostinato.core.errors import Forbidden, OstinatoError
from ostinato.core.model import Status
from ostinato.core.stops import Stop
from ostinato.rest.caller import Operator
from ostinato.rest.dependencies import ServiceDep, warn
from ostinato.rest.jobs import Ref, answer
from ostinato.rest.routers import api_router
from ostinato.service import Service
from ostinato.service.paging import PAGE_LIMIT
from ostinato.shapes.base import RequestBody
from ostinato.shapes.bulk import MOST_JOBS, BulkAnswer, BulkBody, BulkResult
from ostinato.shapes.errors import status_of
from ostinato.shapes.job_answer import JobAnswer

router = api_router("control")


class RunBody(RequestBody):
    """Args for one run."""

    args: dict[str, Any] | None = Field(
        None,
        description="Merged into the job's args: values.day sets one value inside values, and null removes one. "
        "An operator may set only the arguments that the job's run_args name.",
    )


@router.post("/jobs/bulk")
def steer_many(body: BulkBody, service: ServiceDep, by: Operator) -> BulkAnswer:
    """Apply an action to many jobs, each in its own transaction: an error of one job does not stop the others."""
    body.check()
    _check_role(body, by)
    refs, remaining = _found(body, service)
    results = [_result(str(ref), answer) for ref, answer in service.jobs.bulk(body.action, refs, by=by.name).items()]
    done = sum(result.ok for result in results)
    return BulkAnswer(
        action=body.action, succeeded=done, failed=len(results) - done, remaining=remaining, results=results
    )


@router.post("/jobs/{id}/pause")
def pause_job(ref: Ref, service: ServiceDep, by: Operator, response: Response) -> JobAnswer:
    """Pause a job: no run starts after the answer; a run in progress may finish.

    The status of the answer is paused (seed 003), even while a run finishes; lock_token names that run.
    """
    paused = answer(service, service.jobs.pause(ref, by=by.name), response)
    return paused.model_copy(update={"status": Status.PAUSED})


@router.post("/jobs/{id}/resume")
def resume_job(ref: Ref, service: ServiceDep, by: Operator, response: Response) -> JobAnswer:
    """Resume a job without catching up: its next due time is after now."""
    return answer(service, service.jobs.resume(ref, by=by.name), response)


@router.post("/jobs/{id}/cancel")
def cancel_job(ref: Ref, service: ServiceDep, by: Operator, response: Response) -> JobAnswer:
    """Cancel a job for good. A run in progress is asked to stop."""
    return answer(service, service.jobs.cancel(ref, by=by.name), response)


@router.post("/jobs/{id}/retry")
def retry_job(
    ref: Ref,
    service: ServiceDep,
    by: Operator,
    response: Response,
    from_start: Annotated[bool, Query(description="Run a workflow from its start, not from its failed steps.")] = False,
) -> JobAnswer:
    """Retry the failed occurrence at once, with all its retries again."""
    return answer(service, service.jobs.retry(ref, by=by.name, from_start=from_start), response)


@router.post("/jobs/{id}/run", status_code=202)
def run_job(ref: Ref, service: ServiceDep, by: Operator, response: Response, body: RunBody | None = None) -> JobAnswer:
    """Run the job now, in addition to its schedule; args are merged into the job's."""
    args = None if body is None else body.args
    view = service.jobs.run(ref, args, by=by)
    warn(response, service, (), [view.task] if args else [])
    return answer(service, view, response)


@router.post("/jobs/{id}/restart")
def restart_job(ref: Ref, service: ServiceDep, by: Operator, response: Response) -> JobAnswer:
    """Restart a job that has ended, as new."""
    return answer(service, service.jobs.restart(ref, by=by.name), response)


def _check_role(body: BulkBody, by: Caller) -> None:
    if body.action == "delete" and not by.role.allows(Role.ADMIN):
        raise Forbidden(f"To delete needs the role admin; {by.name} is {by.role.value}.")


def _found(body: BulkBody, service: Service) -> tuple[list[UUID | str], int]:
    """Return the chosen jobs, and how many more the filter matches."""
    if body.filter is None:
        return [*(body.ids or ())], 0
    chosen = body.filter.filter()
    page = service.jobs.search(chosen, limit=PAGE_LIMIT)
    found: list[UUID | str] = [view.id for view in page.items]
    total = page.total
    while page.cursor is not None and len(found) < MOST_JOBS:
        page = service.jobs.search(chosen, limit=PAGE_LIMIT, cursor=page.cursor)
        found += [view.id for view in page.items]
    return found, max(total - len(found), 0)


def _result(ref: str, answer: OstinatoError | Stop | None) -> BulkResult:
    if isinstance(answer, OstinatoError):
        return BulkResult(id=ref, ok=False, status_code=status_of(answer), detail=str(answer))
    return BulkResult(id=ref, ok=True, status_code=200, detail=None if answer is None else answer.sentence)
