"""Jobs: make, list, get, edit, delete."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Response
from pydantic import BaseModel

from ostinato.api.caller import Admin, Viewer
from ostinato.api.desk import AtThisDesk, Desk
from ostinato.core.errors import NotFound, Stale, UnknownTask
from ostinato.core.model import Definition
from ostinato.scheduler import JobView, Scheduler
from ostinato.wire import job_body
from ostinato.wire.intervals import CRAWL
from ostinato.wire.job_answer import JobAnswer, JobList
from ostinato.wire.job_body import JobBody, JobEdit
from ostinato.wire.words import WrongField

router = APIRouter(tags=["jobs"])

Ref = Annotated[str, Path(alias="id", description="The id of a job, or its key.", max_length=200)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Edit only this version (ETag).")]


class Gone(BaseModel):
    """What was deleted."""

    message: str


@router.post(
    "/jobs",
    status_code=201,
    responses={200: {"model": JobAnswer, "description": "There already, by its key"}},
)
def create_job(body: JobBody, desk: Desk, here: AtThisDesk, by: Admin, response: Response) -> JobAnswer:
    """Make a job, in our words or those of the interval scheduler, mixed freely.

    A key that is held by a job which has not ended gives that job (200).
    """
    definition = job_body.new_definition(body, here)
    held = _holder(desk, definition)
    view = _create(desk, definition, by.name)
    if view.id == held:
        response.status_code = 200
    response.headers["Location"] = f"/api/v1/jobs/{view.id}"
    return _answer(view, response)


@router.get("/jobs")
def list_jobs(desk: Desk, by: Viewer, limit: int = 50) -> JobList:
    """A page of jobs, the newest first."""
    found = desk.jobs.list(limit=limit, all_apps=True)
    return JobList(
        jobs=[JobAnswer.of(view) for view in found], total=len(found), limit=limit, offset=0, cursor=None
    )


@router.get("/jobs/{id}")
def get_job(ref: Ref, desk: Desk, by: Viewer, response: Response) -> JobAnswer:
    """One job, by its id or its key."""
    return _answer(desk.jobs.get(ref), response)


@router.put("/jobs/{id}")
@router.patch("/jobs/{id}")
def edit_job(
    ref: Ref,
    body: JobEdit,
    desk: Desk,
    here: AtThisDesk,
    by: Admin,
    response: Response,
    if_match: IfMatch = None,
) -> JobAnswer:
    """Change what the body says, and nothing else. A run in progress is not touched."""
    view = desk.jobs.get(ref)
    expected = _expected(if_match, view)
    change = job_body.edit(body, JobAnswer.of(view), here)
    wanted = change(view.definition)
    if wanted == view.definition:
        return _answer(view, response)
    unknown = _may_be_unknown(wanted)
    edited = desk.jobs.edit(view.id, change, by=by.name, expected_version=expected, allow_unknown=unknown)
    return _answer(edited, response)


@router.delete("/jobs/{id}")
def delete_job(ref: Ref, desk: Desk, by: Admin) -> Gone:
    """Gone from every answer at once; what runs is told to stop."""
    desk.jobs.delete(ref, by=by.name)
    return Gone(message=f"Job {ref} is deleted.")


def _create(desk: Scheduler, definition: Definition, by: str) -> JobView:
    try:
        (job_id,) = desk.jobs.create([definition], by=by, allow_unknown=_may_be_unknown(definition))
    except UnknownTask as error:
        raise WrongField("task", str(error)) from None
    return desk.jobs.get(job_id)


def _may_be_unknown(definition: Definition) -> bool:
    """A crawl is accepted though nobody here can crawl; it waits for somebody who can."""
    return definition.task == CRAWL


def _holder(desk: Scheduler, definition: Definition) -> object:
    if definition.key is None:
        return None
    try:
        return desk.jobs.resolve(definition.key)
    except NotFound:
        return None


def _expected(if_match: str | None, view: JobView) -> int | None:
    """The version that an edit is for. `*` is any."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in if_match.split(",")]
    if str(view.facts.version) not in tags:
        raise Stale(f"This job is at version {view.facts.version} by now: get it again.")
    return view.facts.version


def _answer(view: JobView, response: Response) -> JobAnswer:
    response.headers["ETag"] = f'"{view.facts.version}"'
    return JobAnswer.of(view)
