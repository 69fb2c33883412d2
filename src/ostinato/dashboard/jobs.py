"""The list of jobs: filters, sorting, and actions on many jobs."""

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import Forbidden, Invalid, OstinatoError
from ostinato.core.lifecycle import allowed
from ostinato.core.model import Status
from ostinato.core.stops import STILL_RUNNING, Stop
from ostinato.dashboard import query
from ostinato.dashboard.formatting import many
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post
from ostinato.dashboard.run_dots import spark_dots
from ostinato.service import JobFilter, JobView

ROWS_OF_A_PAGE: Final = 50
MOST_AT_ONCE: Final = 1000
SORTS: Final = {
    "-created_at": "newest first",
    "created_at": "oldest first",
    "next_run_at": "next run first",
    "name": "by name",
    "-updated_at": "last changed first",
    "priority": "by priority",
    "status": "by status",
}


@dataclass(frozen=True, slots=True)
class Action:
    """An action on many jobs."""

    name: str
    role: Role
    done: str
    meaning: str  # the explanation on the confirmation page


ACTIONS: Final = {
    action.name: action
    for action in (
        Action(
            "pause",
            Role.OPERATOR,
            "paused",
            "No new runs start until the jobs are resumed. Runs in progress finish.",
        ),
        Action("resume", Role.OPERATOR, "resumed", "The jobs continue from now, without catching up."),
        Action("run", Role.OPERATOR, "run", "Each job gets an extra run now. Schedules do not change."),
        Action(
            "retry",
            Role.OPERATOR,
            "retried",
            "Each job runs its failed occurrence again, with all its retries.",
        ),
        Action(
            "cancel",
            Role.OPERATOR,
            "cancelled",
            "The jobs stop for good: runs in progress are asked to stop, and no new runs start.",
        ),
        Action(
            "delete",
            Role.ADMIN,
            "deleted",
            "The jobs and their history are deleted at once. This cannot be undone.",
        ),
    )
}


def show(visit: PageRequest) -> Response:
    """Show a list of jobs."""
    sort = query.one_of(visit, "sort", SORTS, "-created_at")
    cursor = query.word(visit, "cursor") or None
    try:
        page = visit.service.jobs.search(_chosen(visit), sort=sort, limit=ROWS_OF_A_PAGE, cursor=cursor)
    except Invalid as error:
        visit = visit.with_error("filters", error)
        page = visit.service.jobs.search(limit=ROWS_OF_A_PAGE)
    page = replace(page, items=tuple(visit.service.jobs.with_reasons(page.items)))
    runs = visit.service.board.sparks(page.items)
    return visit.page(
        "jobs.html",
        page=page,
        sort=sort,
        sorts=list(SORTS.items()),
        statuses=[(status.value, status.value) for status in Status],
        queues=[(queue.name, queue.name) for queue in visit.service.queues()],
        chosen={name: query.word(visit, name) for name in ("text", "status", "task", "queue", "tag")},
        filtered=any(query.word(visit, name) for name in ("text", "status", "task", "queue", "tag")),
        sparks={view.id: spark_dots(view, runs.get(view.id, ())) for view in page.items},
        more=query.address(visit, cursor=page.cursor) if page.cursor else "",
        first=query.address(visit, cursor=None) if cursor else "",
        actions=[action for action in ACTIONS.values() if visit.may(action.role)],
        most=MOST_AT_ONCE,
    )


def _chosen(visit: PageRequest) -> JobFilter:
    status = query.word(visit, "status")
    if status and status not in set(Status):
        raise Invalid(f"There is no status {status[:60]!r}. Statuses are {', '.join(Status)}.")
    return JobFilter(
        statuses=frozenset([Status(status)]) if status else frozenset(),
        task=query.word(visit, "task") or None,
        queue=query.word(visit, "queue") or None,
        tag=query.word(visit, "tag") or None,
        text=query.word(visit, "text") or None,
    )


# -- actions on many jobs


def ask(visit: PageRequest) -> Response:
    """Show the confirmation page of an action on many jobs."""
    action = _action(visit)
    views = _wanted(visit)
    if not views:
        return visit.redirect("/jobs", "No jobs selected. Select some first.")
    fit = [view for view in views if action.name in allowed(view.status, is_paused=bool(view.facts.paused_at))]
    return visit.page(
        "bulk.html",
        action=action,
        fit=fit,
        others=[view for view in views if view not in fit],
        back=_back(visit),
    )


def act(visit: PageRequest) -> Response:
    """Do the action on each job; an error of one job does not affect the others."""
    action = _action(visit)
    ids = [_id(str(text)) for text in visit.form.getlist("job")][:MOST_AT_ONCE]
    answers = visit.service.jobs.bulk(action.name, ids, by=visit.by)
    errors = [answer for answer in answers.values() if isinstance(answer, OstinatoError)]
    stops = sum(isinstance(answer, Stop) for answer in answers.values())
    message = f"{many(len(answers) - len(errors), 'job')} {action.done}."
    if stops:
        message += f" {stops} of them: {STILL_RUNNING.sentence}"
    if errors:
        message += f" {len(errors)} not: {errors[0]}"
    return visit.redirect(_back(visit), message)


def _action(visit: PageRequest) -> Action:
    name = str(visit.form.get("action", ""))
    if name not in ACTIONS:
        raise Invalid(f"There is no action {name[:60]!r}. Actions are {', '.join(ACTIONS)}.")
    if not visit.may(ACTIONS[name].role):
        raise Forbidden(f"This needs the role {ACTIONS[name].role.value}.")
    return ACTIONS[name]


def _wanted(visit: PageRequest) -> list[JobView]:
    """Find the selected jobs, or all that match the filters."""
    if visit.form.get("all") != "1":
        found = visit.service.board.some(_id(str(text)) for text in visit.form.getlist("job"))
        return list(found.values())[:MOST_AT_ONCE]
    chosen, views, cursor = _chosen(visit), list[JobView](), None
    while len(views) < MOST_AT_ONCE:
        page = visit.service.jobs.search(chosen, limit=250, cursor=cursor)
        views += page.items
        cursor = page.cursor
        if cursor is None:
            break
    return views[:MOST_AT_ONCE]


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"{text[:60]!r} is not the id of a job.") from None


def _back(visit: PageRequest) -> str:
    """Return the address of the list with its filters."""
    return query.address(visit, cursor=None).replace("/jobs/bulk/sure", "/jobs").replace("/jobs/bulk", "/jobs")


ROUTES: Final = (
    get("/jobs", show),
    post("/jobs/bulk", ask, Role.OPERATOR),
    post("/jobs/bulk/sure", act, Role.OPERATOR),
)
