"""One job: when it runs, how it behaves, what has become of it, and what may be asked of it now."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.choice import Choice
from ostinato.core.errors import Invalid, NotFound, OstinatoError
from ostinato.core.lifecycle import allowed, backoff_of
from ostinato.core.policy import POLICY_WORDS, Policies
from ostinato.core.retry import UNNAMED, Backoff, BackoffKind
from ostinato.core.schedule import Cron
from ostinato.core.window import Window
from ostinato.dashboard import query
from ostinato.dashboard.formatting import span
from ostinato.dashboard.jobs import ACTIONS
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post
from ostinato.dashboard.run_dots import durations
from ostinato.service import JobView
from ostinato.service.allowance import allowance

ROWS_OF_A_PAGE: Final = 25
EVENTS: Final = 15
DOTS: Final = 120
ALWAYS: Final = ("overlap", "catch_up", "max_retries", "backoff", "when_exhausted", "on_lost", "timeout")
DEFAULTS: Final = Policies()


def show(visit: PageRequest) -> Response:
    """Everything about one job; by its id, or by its key."""
    (job,) = visit.service.jobs.with_reasons([_find(visit)])
    cursor = query.word(visit, "cursor") or None
    try:
        page, history = visit.service.board.history(job.id, ROWS_OF_A_PAGE, cursor)
    except Invalid as error:
        visit, cursor = visit.with_error("history", error), None
        page, history = visit.service.board.history(job.id, ROWS_OF_A_PAGE)
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
        more=query.address(visit, cursor=page.cursor) if page.cursor else "",
        first=query.address(visit, cursor=None) if cursor else "",
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
        raise NotFound("There is no such job: it may have been deleted, or its time to be kept is over.") from None


def _policies(found: Policies, backoff: Backoff) -> Iterator[tuple[str, str, bool]]:
    """List policies: label, value, and whether it differs from the default. Most are left out if they do not."""
    for name in (*ALWAYS, *(each for each in POLICY_WORDS if each not in ALWAYS)):
        value = getattr(found, name)
        chosen = value not in (getattr(DEFAULTS, name), UNNAMED)
        if chosen or name in ALWAYS:
            shown = backoff if name == "backoff" else value
            yield POLICY_WORDS[name].label, _told(shown, found) or POLICY_WORDS[name].unset, chosen


def _told(value: Any, policies: Policies) -> str:
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
            told = value.to_json()
            return f"{', '.join(told['days'])} {told['from']}–{told['to']} {told['timezone']}"
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


# -- what may be asked of it


def _doing(name: str) -> Callable[[PageRequest], Response]:
    def act(visit: PageRequest) -> Response:
        job_id = query.id_in_path(visit)
        answer = visit.service.jobs.bulk(name, [job_id], by=visit.by)[job_id]
        if isinstance(answer, OstinatoError):
            return show(visit.with_error("actions", answer)) if not isinstance(answer, NotFound) else _raise(answer)
        return _done(visit, name, job_id, "" if answer is None else f" {answer.sentence}")

    return act


def _raise(error: OstinatoError) -> Response:
    raise error


def _done(visit: PageRequest, name: str, job_id: UUID, stop: str) -> Response:
    if name == "delete":
        return visit.redirect("/jobs", f"The job is deleted.{stop}")
    told = {
        "run": "A run is queued.",
        "retry": "The failed occurrence is tried again.",
        "restart": "It begins as new.",
    }
    return visit.redirect(f"/jobs/{job_id}", (told.get(name) or f"The job is {ACTIONS[name].done}.") + stop)


COMMANDS: Final = ("run", "retry", "restart", "pause", "resume", "cancel")
ROUTES: Final = (
    get("/jobs/{id}", show),
    *(post(f"/jobs/{{id}}/{name}", _doing(name), Role.OPERATOR) for name in COMMANDS),
    post("/jobs/{id}/delete", _doing("delete"), Role.ADMIN),
)
