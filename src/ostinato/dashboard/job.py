"""One job: when it runs, how it behaves, what has become of it, and what may be asked of it now."""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import Invalid, NotFound, OstinatoError
from ostinato.core.lifecycle import allowed, backoff_of
from ostinato.core.policy import Policies
from ostinato.core.retry import UNNAMED, Backoff, BackoffKind
from ostinato.core.schedule import Cron
from ostinato.dashboard import query
from ostinato.dashboard.formatting import many, span
from ostinato.dashboard.jobs import ACTIONS
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post
from ostinato.dashboard.run_dots import durations
from ostinato.service import JobView
from ostinato.service.allowance import allowance

ROWS_OF_A_PAGE: Final = 25
EVENTS: Final = 15
DOTS: Final = 120
USUAL: Final = Policies()


def show(visit: PageRequest) -> Response:
    """Everything about one job; by its id, or by its key."""
    (job,) = visit.service.jobs.with_reasons([_find(visit)])
    cursor = query.word(visit, "cursor") or None
    try:
        page, history = visit.service.board.history(job.id, ROWS_OF_A_PAGE, cursor)
    except Invalid as error:
        visit, cursor = visit.troubled("history", error), None
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
        return visit.service.jobs.get(visit.part("id"))
    except NotFound:
        raise NotFound(
            "There is no such job: it may have been deleted, or its time to be kept is over."
        ) from None


def _policies(found: Policies, backoff: Backoff) -> "list[tuple[str, str, bool]]":
    """List policies: label, value, and whether it differs from the default."""
    told: list[tuple[str, str, bool]] = [
        ("While one is live", _overlap(found), found.overlap is not USUAL.overlap),
        ("Missed due times", _catch_up(found), found.catch_up is not USUAL.catch_up),
        (
            "Retries",
            _retries(found.max_retries, backoff),
            found.max_retries != USUAL.max_retries or found.backoff not in (USUAL.backoff, UNNAMED),
        ),
        ("When they are used up", _exhausted(found), found.when_exhausted is not USUAL.when_exhausted),
        ("When its worker dies", _lost(found), found.on_lost is not USUAL.on_lost),
        ("Timeout", "none" if found.timeout is None else span(found.timeout), found.timeout is not None),
    ]
    told += [
        (name, text, True)
        for name, text in (
            ("Begins", _instant(found.start_at)),
            ("Ends", _instant(found.end_at)),
            ("Repeats", many(found.total_repeats, "success", "successes") if found.total_repeats else ""),
            ("Window", "" if found.window is None else _window(found)),
            ("Period", "counted from the finish" if found.fixed_delay else ""),
            ("Spread", f"up to {span(found.jitter)} later" if found.jitter else ""),
            (
                "Retry budget",
                "" if found.retry_reset_period is None else f"per {span(found.retry_reset_period)}",
            ),
            ("At once, everywhere", "" if found.max_concurrency is None else str(found.max_concurrency)),
            ("Rate", found.rate_limit or ""),
            ("Limits shared by", found.concurrency_key or ""),
            ("CPU", "" if found.cpu_limit is None else span(found.cpu_limit)),
            ("Memory", "" if found.memory_limit_mb is None else f"{found.memory_limit_mb} MB"),
            ("Keeps", _kept(found)),
            ("Operators may set", ", ".join(found.run_args)),
        )
        if text
    ]
    return told


def _exhausted(found: Policies) -> str:
    words = {
        "continue": "go on with the next",
        "fail": "the job fails",
        "wait_reset": "wait for the next period",
    }
    return words[found.when_exhausted.value]


def _lost(found: Policies) -> str:
    return {"retry": "try again at once", "fail": "the run fails"}[found.on_lost.value]


def _overlap(found: Policies) -> str:
    words = {
        "skip": "skip the due time",
        "queue_one": "one waits",
        "cancel_running": "the running one is stopped",
        "allow": f"up to {found.max_overlap} at once",
    }
    return words[found.overlap.value]


def _catch_up(found: Policies) -> str:
    words = {"latest": "run the latest", "all": f"run all, up to {found.catch_up_limit}", "none": "skip them"}
    return words[found.catch_up.value]


def _retries(most: int, backoff: Backoff) -> str:
    return f"{most}, {_backoff(backoff)}" if most else "none"


def _backoff(backoff: Backoff) -> str:
    match backoff.kind:
        case BackoffKind.STEPS:
            return f"after {', '.join(map(span, backoff.steps))}"
        case BackoffKind.FIXED:
            return f"after {span(backoff.base)} each"
        case _:
            return f"{backoff.kind.value} from {span(backoff.base)} to {span(backoff.cap)}"


def _window(found: Policies) -> str:
    assert found.window is not None
    told = found.window.to_json()
    return f"{', '.join(told['days'])} {told['from']}–{told['to']} {told['timezone']}"


def _instant(at: datetime | None) -> str:
    return "" if at is None else f"{at:%d %b %Y, %H:%M:%S} UTC"


def _kept(found: Policies) -> str:
    told = [] if found.keep_executions is None else [many(found.keep_executions, "execution")]
    return ", ".join(told + ([] if found.keep_days is None else [many(found.keep_days, "day")]))


# -- what may be asked of it


def _doing(name: str) -> Callable[[PageRequest], Response]:
    def act(visit: PageRequest) -> Response:
        job_id = query.id_in_path(visit)
        answer = visit.service.jobs.bulk(name, [job_id], by=visit.by)[job_id]
        if isinstance(answer, OstinatoError):
            return (
                show(visit.troubled("actions", answer))
                if not isinstance(answer, NotFound)
                else _raise(answer)
            )
        return _done(visit, name, job_id, "" if answer is None else f" {answer.sentence}")

    return act


def _raise(error: OstinatoError) -> Response:
    raise error


def _done(visit: PageRequest, name: str, job_id: UUID, stop: str) -> Response:
    if name == "delete":
        return visit.see("/jobs", f"The job is deleted.{stop}")
    told = {
        "run": "A run is queued.",
        "retry": "The failed occurrence is tried again.",
        "restart": "It begins as new.",
    }
    return visit.see(f"/jobs/{job_id}", (told.get(name) or f"The job is {ACTIONS[name].done}.") + stop)


COMMANDS: Final = ("run", "retry", "restart", "pause", "resume", "cancel")
ROUTES: Final = (
    get("/jobs/{id}", show),
    *(post(f"/jobs/{{id}}/{name}", _doing(name), Role.OPERATOR) for name in COMMANDS),
    post("/jobs/{id}/delete", _doing("delete"), Role.ADMIN),
)
