"""Commands that have a body: create, edit and run jobs, one action for many; bounds of queues, declined jobs."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from ostinato.core.access import Caller, Role
from ostinato.core.account import Stop
from ostinato.core.errors import Forbidden, OstinatoError, Stale, UnknownTask
from ostinato.core.model import Definition
from ostinato.endpoints.jobs import answer, answers
from ostinato.endpoints.operating import QueueName, queue_answer
from ostinato.endpoints.table import Ask, JobRef, Table, header
from ostinato.service import JobView, Service
from ostinato.service.paging import PAGE_LIMIT
from ostinato.shapes import job_body
from ostinato.shapes.answers import status_of
from ostinato.shapes.base import LARGEST, RequestBody, Whole, WrongField
from ostinato.shapes.changes import (
    MOST_JOBS,
    BulkAnswer,
    BulkBody,
    BulkResult,
    DeclinedAnswer,
    DeclinedList,
    PreviewBody,
    RedeclareBody,
    Redeclared,
    previewed,
)
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.job_body import JobBody, JobEdit
from ostinato.shapes.job_words import CRAWL
from ostinato.shapes.operating import QueueAnswer
from ostinato.shapes.queries import MakeQuery, TimesAnswer

# -- Commands about jobs that have a body: create, edit, run now, and one action for many jobs

TABLE = Table("jobs")

EXISTING = {200: "The existing job with this key"}
IF_MATCH = header("If-Match", "Edit only this version (ETag).", 8000)


class RunBody(RequestBody):
    """Args for one run."""

    args: dict[str, Any] | None = Field(
        None,
        description="Merged into the job's args: values.day sets one value inside values, and null removes one. "
        "An operator may set only the arguments that the job's run_args name.",
    )


@TABLE.post("/jobs", Role.ADMIN, status=201, also=EXISTING)
def create_job(ask: Ask, body: JobBody, asked: MakeQuery) -> JobAnswer:
    """Create a job, with fields of Ostinato or of the interval scheduler, in any mix.

    If a job with the same key has not ended, the answer is that job (200).
    """
    return make_job(ask, job_body.new_definition(body, ask.here), asked.allow_unknown)


@TABLE.put("/jobs/{id}", Role.ADMIN, headers=(IF_MATCH,))
@TABLE.patch("/jobs/{id}", Role.ADMIN, headers=(IF_MATCH,))
def edit_job(ask: Ask, ref: JobRef, body: JobEdit) -> JobAnswer:
    """Change the fields that the body contains. A run in progress does not change.

    The body may be an earlier answer with some fields edited.
    """
    service = ask.service
    view = service.jobs.get(ref)
    expected = _expected(ask.header("If-Match"), view)
    change = job_body.edit(body, answers(service, [view])[0], ask.here)
    wanted = change(view.definition)
    if wanted == view.definition:
        return answer(ask, view)
    unknown = _may_be_unknown(wanted) or wanted.task == view.task
    edited = service.jobs.edit(view.id, change, by=ask.by.name, expected_version=expected, allow_unknown=unknown)
    ask.warn(service.jobs.secrets(edited), [edited.task])
    return answer(ask, edited)


@TABLE.post("/jobs/bulk", Role.OPERATOR, tag="control")
def steer_many(ask: Ask, body: BulkBody) -> BulkAnswer:
    """Apply an action to many jobs, each in its own transaction: an error of one job does not stop the others."""
    body.check()
    _check_role(body, ask.by)
    refs, remaining = _found(body, ask.service)
    done = ask.service.jobs.bulk(body.action, refs, by=ask.by.name)
    results = [_result(str(ref), answer) for ref, answer in done.items()]
    succeeded = sum(result.ok for result in results)
    return BulkAnswer(
        action=body.action, succeeded=succeeded, failed=len(results) - succeeded, remaining=remaining, results=results
    )


@TABLE.post("/jobs/{id}/run", Role.OPERATOR, tag="control", status=202)
def run_job(ask: Ask, ref: JobRef, body: RunBody | None = None) -> JobAnswer:
    """Run the job now, in addition to its schedule; args are merged into the job's."""
    args = None if body is None else body.args
    view = ask.service.jobs.run(ref, args, by=ask.by)
    ask.warn((), [view.task] if args else [])
    return answer(ask, view)


@TABLE.post("/preview", Role.VIEWER, tag="statistics")
def preview_schedule(ask: Ask, body: PreviewBody) -> TimesAnswer:
    """Preview a schedule: its next due times and its description. Nothing is stored.

    The search uses 250 ms of CPU time at most; `complete` is false if that was too little.
    """
    return previewed(body, ask.here, ask.allowed())


def make_job(ask: Ask, definition: Definition, allow_unknown: bool) -> JobAnswer:
    """Create a job, or return the existing one with its key (200)."""
    view, new = _make(ask, definition, allow_unknown or _may_be_unknown(definition))
    if not new:
        ask.status = 200
    ask.headers["Location"] = f"/api/v1/jobs/{view.id}"
    ask.warn(ask.service.jobs.secrets(view), [view.task])
    return answer(ask, view)


def _make(ask: Ask, definition: Definition, allow_unknown: bool) -> tuple[JobView, bool]:
    try:
        return ask.service.jobs.make(definition, by=ask.by.name, allow_unknown=allow_unknown)
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


def _check_role(body: BulkBody, by: Caller) -> None:
    if body.action == "delete" and not by.role.allows(Role.ADMIN):
        raise Forbidden(f"To delete needs the role admin; {by.name} is {by.role.value}.")


def _found(body: BulkBody, service: Service) -> tuple[list[UUID | str], int]:
    """Return the chosen jobs, and how many more the filter matches."""
    chosen = body.chosen
    if chosen is None:
        return [*(body.ids or ())], 0
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


# -- Declared jobs that were deleted: list them, and allow their creation again


@TABLE.get("/declined", Role.VIEWER)
def list_declined(ask: Ask) -> DeclinedList:
    """List the declared jobs that were deleted and stay deleted."""
    found = [DeclinedAnswer.of(row) for row in ask.service.declarations.declined()]
    return DeclinedList(declined=found, total=len(found))


@TABLE.post("/declined/redeclare", Role.ADMIN)
def redeclare_job(ask: Ask, body: RedeclareBody) -> Redeclared:
    """Allow a deleted job to be created again, when a process of its app starts."""
    return Redeclared.of(ask.service.declarations.redeclare(body.key, app=body.app, by=ask.by.name))


# -- The bound of a queue

QUEUES = TABLE.tagged("workers")


class QueueEdit(RequestBody):
    """Changes to a queue."""

    max_queued: Annotated[Whole, Field(ge=1, le=LARGEST)] | None = Field(
        description="Schedules add runs only while fewer runs wait in the queue; null: no bound."
    )


@QUEUES.patch("/queues/{name}", Role.ADMIN)
def edit_queue(ask: Ask, queue: QueueName, body: QueueEdit) -> QueueAnswer:
    """Set or remove the bound of a queue."""
    ask.service.bound_queue(queue, body.max_queued, by=ask.by.name)
    return queue_answer(ask, queue)
