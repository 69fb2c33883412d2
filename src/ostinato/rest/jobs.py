"""Endpoints of jobs: create, list, get, edit, delete; and the due times of a job."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Header, Path, Query, Response
from pydantic import BaseModel

from ostinato.core.errors import Stale, UnknownTask
from ostinato.core.model import Definition, Status
from ostinato.rest.caller import Admin, Viewer
from ostinato.rest.dependencies import BodyContextDep, ServiceDep, warn
from ostinato.rest.routers import api_router
from ostinato.service import JobView, Service
from ostinato.service.allowance import allowance
from ostinato.shapes import job_body
from ostinato.shapes.base import WrongField
from ostinato.shapes.executions import SkipAnswer, SkipList
from ostinato.shapes.interval_job import CRAWL
from ostinato.shapes.job_answer import JobAnswer, JobList
from ostinato.shapes.job_body import JobBody, JobEdit
from ostinato.shapes.previews import TimesAnswer
from ostinato.shapes.queries import JobQuery, MakeQuery, NextQuery, SkipQuery, WhyQuery, refuse_both
from ostinato.shapes.why import WhyAnswer

router = api_router("jobs")

Ref = Annotated[str, Path(alias="id", description="The id of a job, or its key.", max_length=200)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Edit only this version (ETag).")]
EXISTING = {"model": JobAnswer, "description": "The existing job with this key"}


class Gone(BaseModel):
    """The answer to a deletion."""

    message: str


@router.post("/jobs", status_code=201, responses={200: EXISTING})
def create_job(
    body: JobBody,
    asked: Annotated[MakeQuery, Query()],
    service: ServiceDep,
    here: BodyContextDep,
    by: Admin,
    response: Response,
) -> JobAnswer:
    """Create a job, with fields of Ostinato or of the interval scheduler (seed 003), in any mix.

    If a job with the same key has not ended, the answer is that job (200).
    """
    definition = job_body.new_definition(body, here)
    return make_job(service, definition, by.name, asked.allow_unknown, response)


@router.get("/jobs")
def list_jobs(asked: Annotated[JobQuery, Query()], service: ServiceDep, by: Viewer) -> JobList:
    """List the jobs of all apps, the newest first."""
    page = service.jobs.search(
        asked.filter(), sort=asked.sort, limit=asked.limit, offset=asked.offset, cursor=asked.cursor
    )
    refuse_both(asked)
    return JobList(
        jobs=answers(service, page.items),
        total=page.total,
        limit=asked.limit,
        offset=asked.offset,
        cursor=page.cursor,
    )


@router.get("/jobs/status-counts")
def count_jobs(service: ServiceDep, by: Viewer) -> dict[Status, int]:
    """Count jobs by status."""
    return service.status_counts()


@router.get("/jobs/{id}")
def get_job(ref: Ref, service: ServiceDep, by: Viewer, response: Response) -> JobAnswer:
    """Get a job by its id or its key."""
    return answer(service, service.jobs.get(ref), response)


@router.put("/jobs/{id}")
@router.patch("/jobs/{id}")
def edit_job(
    ref: Ref,
    body: JobEdit,
    service: ServiceDep,
    here: BodyContextDep,
    by: Admin,
    response: Response,
    if_match: IfMatch = None,
) -> JobAnswer:
    """Change the fields that the body contains. A run in progress does not change.

    The body may be an earlier answer with some fields edited.
    """
    view = service.jobs.get(ref)
    expected = _expected(if_match, view)
    change = job_body.edit(body, answers(service, [view])[0], here)
    wanted = change(view.definition)
    if wanted == view.definition:
        return answer(service, view, response)
    unknown = _may_be_unknown(wanted) or wanted.task == view.task
    edited = service.jobs.edit(view.id, change, by=by.name, expected_version=expected, allow_unknown=unknown)
    warn(response, service, service.jobs.secrets(edited), [edited.task])
    return answer(service, edited, response)


@router.delete("/jobs/{id}")
def delete_job(ref: Ref, service: ServiceDep, by: Admin) -> Gone:
    """Delete a job with its history. A run in progress is asked to stop. A declared job stays deleted."""
    deleted = service.jobs.delete(ref, by=by.name)
    message = f"Job {ref} is deleted."
    if deleted.stop is not None:
        message += f" {deleted.stop.sentence}"
    if deleted.declined:
        message += f" Its app does not create it again, until you run: ostinato job redeclare {deleted.declined}"
    return Gone(message=message)


@router.get("/jobs/{id}/next")
def next_times(ref: Ref, asked: Annotated[NextQuery, Query()], service: ServiceDep, by: Viewer) -> TimesAnswer:
    """List the next due times of a job. There are none while it is paused, or after its end.

    The search uses 250 ms of CPU time at most; `complete` is false if that was too little.
    """
    view = service.jobs.get(ref)
    return TimesAnswer.of(view.definition.schedule, service.jobs.foreseen(view.id, asked.n, allowance()))


@router.get("/jobs/{id}/skips")
def list_skips(ref: Ref, asked: Annotated[SkipQuery, Query()], service: ServiceDep, by: Viewer) -> SkipList:
    """List the skipped due times with their reasons, the newest first."""
    view = service.jobs.get(ref)
    found = service.jobs.skips(view.id, asked.limit)
    return SkipList(skips=[SkipAnswer.of(skip) for skip in found], skipped=view.facts.skipped, limit=asked.limit)


@router.get("/jobs/{id}/why")
def why(ref: Ref, asked: Annotated[WhyQuery, Query()], service: ServiceDep, by: Viewer) -> WhyAnswer:
    """Explain the occurrence at or before an instant, as data and as sentences."""
    return WhyAnswer.of(service.jobs.why(ref, asked.at))


def make_job(service: Service, definition: Definition, by: str, allow_unknown: bool, response: Response) -> JobAnswer:
    """Create a job, or return the existing one with its key (200)."""
    view, new = _make(service, definition, by, allow_unknown or _may_be_unknown(definition))
    if not new:
        response.status_code = 200
    response.headers["Location"] = f"/api/v1/jobs/{view.id}"
    warn(response, service, service.jobs.secrets(view), [view.task])
    return answer(service, view, response)


def answers(service: Service, views: Iterable[JobView]) -> list[JobAnswer]:
    """Return the answers for jobs, each with the outcome of its newest run."""
    views = service.jobs.with_reasons(list(views))
    last = service.jobs.last_runs(views) if views else {}
    return [JobAnswer.of(view, last.get(view.id)) for view in views]


def answer(service: Service, view: JobView, response: Response) -> JobAnswer:
    """Return the answer for a job, with its version as ETag."""
    response.headers["ETag"] = f'"{view.facts.version}"'
    return answers(service, [view])[0]


def _make(service: Service, definition: Definition, by: str, allow_unknown: bool) -> tuple[JobView, bool]:
    try:
        return service.jobs.make(definition, by=by, allow_unknown=allow_unknown)
    except UnknownTask as error:
        raise WrongField("task", str(error)) from None


def _may_be_unknown(definition: Definition) -> bool:
    """Return True for a crawl: it is accepted even without a worker that can crawl, and waits for one."""
    return definition.task == CRAWL


def _expected(if_match: str | None, view: JobView) -> int | None:
    """Return the version that an edit requires. `*` means any."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in if_match.split(",")]
    if str(view.facts.version) not in tags:
        raise Stale(f"This job is at version {view.facts.version} by now: get it again.")
    return view.facts.version
