"""The list of jobs, and the page of one job."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.account import STILL_RUNNING, Stop
from ostinato.core.errors import Forbidden, Invalid, NotFound, OstinatoError
from ostinato.core.lifecycle import allowed, backoff_of
from ostinato.core.model import Status
from ostinato.core.policy import POLICY_WORDS, UNNAMED, Backoff, BackoffKind, Choice, Policies
from ostinato.core.schedule import Cron
from ostinato.core.times import Window
from ostinato.dashboard import page_request
from ostinato.dashboard.charts import durations, spark_dots
from ostinato.dashboard.formatting import many, span
from ostinato.dashboard.page_request import PageRequest, get, post
from ostinato.service import JobFilter, JobView
from ostinato.service.paging import allowance

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
    sort = page_request.one_of(visit, "sort", SORTS, "-created_at")
    cursor = page_request.word(visit, "cursor") or None
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
        chosen={name: page_request.word(visit, name) for name in ("text", "status", "task", "queue", "tag")},
        filtered=any(page_request.word(visit, name) for name in ("text", "status", "task", "queue", "tag")),
        sparks={view.id: spark_dots(view, runs.get(view.id, ())) for view in page.items},
        more=page_request.address(visit, cursor=page.cursor) if page.cursor else "",
        first=page_request.address(visit, cursor=None) if cursor else "",
        actions=[action for action in ACTIONS.values() if visit.may(action.role)],
        most=MOST_AT_ONCE,
    )


def _chosen(visit: PageRequest) -> JobFilter:
    status = page_request.word(visit, "status")
    if status and status not in set(Status):
        raise Invalid(f"There is no status {status[:60]!r}. Statuses are {', '.join(Status)}.")
    return JobFilter(
        statuses=frozenset([Status(status)]) if status else frozenset(),
        task=page_request.word(visit, "task") or None,
        queue=page_request.word(visit, "queue") or None,
        tag=page_request.word(visit, "tag") or None,
        text=page_request.word(visit, "text") or None,
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
    return page_request.address(visit, cursor=None).replace("/jobs/bulk/sure", "/jobs").replace("/jobs/bulk", "/jobs")


# -- One job: schedule, policies, state, and the commands that its state allows

RUNS_OF_A_PAGE: Final = 25
EVENTS: Final = 15
DOTS: Final = 120
ALWAYS: Final = ("overlap", "catch_up", "max_retries", "backoff", "when_exhausted", "on_lost", "timeout")
DEFAULTS: Final = Policies()


def show_one(visit: PageRequest) -> Response:
    """Everything about one job; by its id, or by its key."""
    (job,) = visit.service.jobs.with_reasons([_find(visit)])
    cursor = page_request.word(visit, "cursor") or None
    try:
        page, history = visit.service.board.history(job.id, RUNS_OF_A_PAGE, cursor)
    except Invalid as error:
        visit, cursor = visit.with_error("history", error), None
        page, history = visit.service.board.history(job.id, RUNS_OF_A_PAGE)
    runs = visit.service.board.sparks([job], DOTS).get(job.id, [])
    return visit.page(
        "one_job.html",
        job=job,
        zone_of_job=job.definition.schedule.timezone if isinstance(job.definition.schedule, Cron) else None,
        next_times=visit.service.jobs.foreseen(job.id, 10, allowance()),
        stats=visit.service.jobs.stats(job.id),
        why=visit.service.jobs.why(job.id) if job.facts.last_due_at or job.lives else None,
        policies=list(_policies(job.definition.policies, backoff_of(job.definition, job.facts))),
        scatter_of=durations(runs, visit.zone),
        page=page,
        history=history,
        events=visit.service.jobs.events(job.id, EVENTS),
        more=page_request.address(visit, cursor=page.cursor) if page.cursor else "",
        first=page_request.address(visit, cursor=None) if cursor else "",
        actions=[
            name
            for name in allowed(job.status, is_paused=bool(job.facts.paused_at))
            if visit.may(Role.ADMIN if name == "delete" else Role.OPERATOR)
        ],
    )


def _find(visit: PageRequest) -> JobView:
    try:
        return visit.service.jobs.get(visit.path_param("id"))
    except NotFound:
        raise NotFound("There is no such job. It may have been deleted, by a user or after its retention.") from None


def _policies(found: Policies, backoff: Backoff) -> Iterator[tuple[str, str, bool]]:
    """List policies: label, value, and whether it differs from the default. Most are left out if they do not."""
    for name in (*ALWAYS, *(each for each in POLICY_WORDS if each not in ALWAYS)):
        value = getattr(found, name)
        chosen = value not in (getattr(DEFAULTS, name), UNNAMED)
        if chosen or name in ALWAYS:
            shown = backoff if name == "backoff" else value
            yield POLICY_WORDS[name].label, _in_words(shown, found) or POLICY_WORDS[name].unset, chosen


def _in_words(value: Any, policies: Policies) -> str:
    match value:
        case None:
            return ""
        case Choice():  # "up to max_overlap" with the number of this job
            return re.sub("[a-z]+(_[a-z]+)+", lambda name: str(getattr(policies, name[0], name[0])), value.words)
        case timedelta():
            return span(value)
        case datetime():
            return f"{value:%d %b %Y, %H:%M:%S} UTC"
        case Window():
            window = value.to_json()
            return f"{', '.join(window['days'])} {window['from']}–{window['to']} {window['timezone']}"
        case Backoff(BackoffKind.STEPS):
            return f"after {', '.join(map(span, value.steps))}"
        case Backoff(BackoffKind.FIXED):
            return f"after {span(value.base)} each"
        case Backoff():
            return f"{value.kind.value} from {span(value.base)} to {span(value.cap)}"
        case tuple():
            return ", ".join(value)
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


# -- commands and questions


def _doing(name: str) -> Callable[[PageRequest], Response]:
    def act(visit: PageRequest) -> Response:
        job_id = page_request.id_in_path(visit)
        answer = visit.service.jobs.bulk(name, [job_id], by=visit.by)[job_id]
        if isinstance(answer, OstinatoError):
            return show_one(visit.with_error("actions", answer)) if not isinstance(answer, NotFound) else _raise(answer)
        return _done(visit, name, job_id, "" if answer is None else f" {answer.sentence}")

    return act


def _raise(error: OstinatoError) -> Response:
    raise error


def _done(visit: PageRequest, name: str, job_id: UUID, stop: str) -> Response:
    if name == "delete":
        return visit.redirect("/jobs", f"The job is deleted.{stop}")
    messages = {
        "run": "A run is queued.",
        "retry": "The failed occurrence is queued again.",
        "restart": "The job is restarted.",
    }
    return visit.redirect(f"/jobs/{job_id}", (messages.get(name) or f"The job is {ACTIONS[name].done}.") + stop)


COMMANDS: Final = ("run", "retry", "restart", "pause", "resume", "cancel")


ROUTES: Final = (
    get("/jobs", show),
    post("/jobs/bulk", ask, Role.OPERATOR),
    post("/jobs/bulk/sure", act, Role.OPERATOR),
    get("/jobs/{id}", show_one),
    *(post(f"/jobs/{{id}}/{name}", _doing(name), Role.OPERATOR) for name in COMMANDS),
    post("/jobs/{id}/delete", _doing("delete"), Role.ADMIN),
)
