"""Executions: the list, and one with its times, its log and its outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.account import RELEASED
from ostinato.core.errors import Invalid, OstinatoError
from ostinato.core.payload import LEVELS, decode, level_word
from ostinato.core.read_models import STATES, LogPage
from ostinato.dashboard import page_request
from ostinato.dashboard.charts import Phase
from ostinato.dashboard.page_request import PageRequest, get, post
from ostinato.service import ExecutionView
from ostinato.service.dashboard import Attempt

ROWS_OF_A_PAGE: Final = 50
LINES: Final = 500
ZERO: Final = timedelta(0)
EMPTY: Final = LogPage((), 0, 0)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an execution's page, from a feature: a template, which finds its values in `section.answer`."""

    template: str
    answer: Mapping[str, Any]


# Makes a section of an execution's page, if it belongs there (pages.py of features: `SECTIONS`).
MakeSection = Callable[[PageRequest, Attempt], Section | None]


def show_all(visit: PageRequest) -> Response:
    """Show a list of executions, the newest first."""
    state, task, cursor = (page_request.word(visit, name) for name in ("state", "task", "cursor"))
    try:
        job = page_request.id_asked(visit, "job")
        page = visit.service.executions.search(
            job,
            states=[state] if state else (),
            task=task or None,
            limit=ROWS_OF_A_PAGE,
            cursor=cursor or None,
        )
    except Invalid as error:
        visit, job = visit.with_error("filters", error), None
        page = visit.service.executions.search(limit=ROWS_OF_A_PAGE)
    jobs = visit.service.board.some([*(run.job_id for run in page.items), *([job] if job else [])])
    return visit.page(
        "executions.html",
        page=page,
        jobs=jobs,
        job=jobs.get(job) if job else None,
        chosen={"state": state, "task": task},
        states=[(each, each) for each in STATES],
        filtered=bool(state or task or job),
        more=page_request.address(visit, cursor=page.cursor) if page.cursor else "",
        first=page_request.address(visit, cursor=None) if cursor else "",
    )


def show(visit: PageRequest) -> Response:
    """Show one execution."""
    return _page(visit, page_request.id_in_path(visit))


def _page(visit: PageRequest, execution_id: UUID) -> Response:
    found = visit.service.board.execution(execution_id)
    level = page_request.one_of(visit, "level", set(LEVELS), "")
    log = _log(visit, execution_id, level)
    args = found.row.args
    sections = (make(visit, found) for make in visit.site.sections)
    return visit.page(
        "one_execution.html",
        found=found,
        run=found.view,
        job=found.job,
        phases_of=_phases(found, visit.now),
        args=found.job.args if args is None else decode(args),
        own_args=args is not None,
        log=log,
        level=level,
        levels=[(each, each) for each in LEVELS],
        level_word=level_word,
        is_live=found.view.status in ("queued", "running"),
        sections=[section for section in sections if section is not None],
    )


def _log(visit: PageRequest, execution_id: UUID, level: str) -> LogPage:
    """Read the first log lines, or the lines after a number."""
    after = page_request.word(visit, "after")
    try:
        return visit.service.executions.log(
            execution_id, after=int(after) if after.isdigit() else 0, level=level or None, limit=LINES
        )
    except OverflowError:
        return EMPTY


def _phases(found: Attempt, now: datetime) -> list[Phase]:
    """Split the time from the due time to the end into phases. Clocks differ: no phase is negative."""
    run, queued_at = found.view, found.row.queued_at
    ready = max(run.run_at, queued_at)
    started = run.started_at or run.finished_at or now
    end = run.finished_at or now
    ending = {"completed": "completed", "failed": "failed", "cancelled": "cancelled"}.get(run.status, "ran")
    phases = [
        Phase("waited", "waiting until ready", ready - run.due_at),
        Phase("queued", "in the queue", started - ready),
    ]
    if run.started_at is not None:
        phases.append(Phase(ending, "ran" if run.finished_at else "running", end - run.started_at))
    return [Phase(each.kind, each.word, max(each.length, ZERO)) for each in phases]


# -- actions


def cancel(visit: PageRequest) -> Response:
    """Ask a running execution to stop, or withdraw a queued one."""
    execution_id = page_request.id_in_path(visit)
    force = visit.form.get("force") == "1"
    try:
        left = visit.service.executions.cancel(execution_id, by=visit.by, force=force)
    except OstinatoError as error:
        return _with_error(visit, execution_id, error)
    message = left.stop.sentence if left.stop else "The run is cancelled."
    return visit.redirect(f"/executions/{execution_id}", message)


def release(visit: PageRequest) -> Response:
    """Take a run from its worker and queue it again."""
    execution_id = page_request.id_in_path(visit)
    try:
        visit.service.executions.release(execution_id, by=visit.by)
    except OstinatoError as error:
        return _with_error(visit, execution_id, error)
    return visit.redirect(f"/executions/{execution_id}", f"The run is queued again. {RELEASED}")


def run_again(visit: PageRequest) -> Response:
    """Run the job of an execution again, with the same args."""
    execution_id = page_request.id_in_path(visit)
    found = visit.service.board.execution(execution_id)
    try:
        job = visit.service.jobs.run_again(found.row, by=visit.caller)
    except OstinatoError as error:
        return _with_error(visit, execution_id, error)
    newest: list[ExecutionView] = [ExecutionView.of(live) for live in job.lives]
    queued = max(newest, key=lambda run: run.number, default=None)
    return visit.redirect(f"/executions/{queued.id}" if queued else f"/jobs/{job.id}", "A run is queued.")


def _with_error(visit: PageRequest, execution_id: UUID, error: OstinatoError) -> Response:
    return _page(visit.with_error("actions", error), execution_id)


ROUTES: Final = (
    get("/executions", show_all),
    get("/executions/{id}", show),
    post("/executions/{id}/cancel", cancel, Role.OPERATOR),
    post("/executions/{id}/release", release, Role.OPERATOR),
    post("/executions/{id}/run", run_again, Role.OPERATOR),
)
