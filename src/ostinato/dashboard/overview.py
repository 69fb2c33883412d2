"""The overview, and the pages of workers and of events."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Hour
from ostinato.core.times import zone
from ostinato.dashboard import page_request
from ostinato.dashboard.charts import OUTCOMES, Bar, hour_bars
from ostinato.dashboard.formatting import many
from ostinato.dashboard.page_request import PageRequest, get, post
from ostinato.service.paging import allowance

LABELS: Final = 5  # on the axis of a chart
SPANS: Final = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}


def show(visit: PageRequest) -> Response:
    """Show the overview."""
    span = page_request.one_of(visit, "span", SPANS, "24h")
    found = visit.service.board.overview(SPANS[span], allowance())
    return visit.page(
        "overview.html",
        found=found,
        span=span,
        spans=SPANS,
        bars_by_hour=hour_bars(found.hours, visit.zone),
        most=max((sum(hour.ended.values()) for hour in found.hours if hour.ended), default=0),
        axis=_axis([hour.at for hour in found.hours], visit.zone),
        lately=_lately(found.hours),
        outcomes=OUTCOMES,
        coming=[_quarter(at, count, visit.zone) for at, count in found.coming.counts],
        coming_total=sum(count for _, count in found.coming.counts),
        coming_axis=_axis([at for at, _ in found.coming.counts], visit.zone),
    )


def _axis(starts: Sequence[datetime], name: str) -> list[str]:
    """Choose evenly spaced times as labels of a chart."""
    chosen = [starts[len(starts) * n // LABELS] for n in range(LABELS)] if starts else []
    long = len(starts) > 48
    return [f"{at.astimezone(zone(name)):{'%a %H:%M' if long else '%H:%M'}}" for at in chosen]


def _quarter(at: datetime, count: int, name: str) -> Bar:
    return Bar((("scheduled", count),), f"{at.astimezone(zone(name)):%H:%M}: {many(count, 'due time')}")


def _lately(hours: Sequence[Hour]) -> dict[str, int]:
    """Sum the counts of all hours."""
    known = [hour.ended for hour in hours if hour.ended is not None]
    completed = sum(ended[OutcomeKind.COMPLETED] for ended in known)
    cancelled = sum(ended[OutcomeKind.CANCELLED] for ended in known)
    return {
        "completed": completed,
        "failed": sum(sum(each.values()) for each in known) - completed - cancelled,
    }


# -- The page of workers, their executions and queues


def show_workers(visit: PageRequest) -> Response:
    """Show workers and queues."""
    team = visit.service.board.team()
    return visit.page(
        "workers.html",
        at_work=[each for each in team if each.worker.closed_at is None],
        ended=[each for each in team if each.worker.closed_at is not None],
        queues_of={each.worker.id: json.loads(each.worker.queues) for each in team},
        queues=visit.service.queues(),
        jobs=visit.service.board.some(run.job_id for each in team for run in each.runs),
        quote=quote,
    )


def drain(visit: PageRequest) -> Response:
    """Let a worker finish its runs and claim no more."""
    try:
        visit.service.drain(page_request.id_in_path(visit), by=visit.by)
    except OstinatoError as error:
        return show_workers(visit.with_error("workers", error))
    return visit.redirect("/workers", "The worker claims no more runs, and stops when its runs have finished.")


def pause(visit: PageRequest) -> Response:
    name = visit.path_param("name")
    try:
        visit.service.pause_queue(name, by=visit.by)
    except OstinatoError as error:
        return show_workers(visit.with_error("queues", error))
    return visit.redirect("/workers#queues", f"The queue {name} is paused: no runs start from it.")


def resume(visit: PageRequest) -> Response:
    name = visit.path_param("name")
    try:
        visit.service.resume_queue(name, by=visit.by)
    except OstinatoError as error:
        return show_workers(visit.with_error("queues", error))
    return visit.redirect("/workers#queues", f"The queue {name} is resumed.")


# -- The page of events

ROWS_OF_A_PAGE: Final = 50
GROUPS: Final = {
    "job.*": "jobs",
    "execution.*": "executions",
    "worker.*": "workers",
    "queue.*": "queues",
    "key.*": "API keys",
}
KINDS: Final = {
    "job.paused": "job paused",
    "job.resumed": "job resumed",
    "job.edited": "job edited",
    "job.created": "job created",
    "job.imported": "job imported",
    "job.deleted": "job deleted",
    "job.redeclared": "job declared again",
    "job.cancelled": "job cancelled",
    "job.run": "job run by hand",
    "job.exhausted": "retries used up",
    "execution.lost": "execution lost",
    "result.refused": "result rejected",
    "database.went_back": "database went back",
    "result.held": "result not saved",
    "clock.jumped": "clock was set",
    "audit.flaw": "flaw found",
}


def show_events(visit: PageRequest) -> Response:
    """Show the audit log, the newest events first."""
    kind, by, job = (page_request.word(visit, name) for name in ("kind", "by", "job"))
    try:
        before = page_request.id_asked(visit, "before")
        events, onward = visit.service.board.audit(job or None, [kind] if kind else [], by, ROWS_OF_A_PAGE, before)
    except OstinatoError as error:
        visit, before = visit.with_error("filters", error), None
        events, onward = visit.service.board.audit(None, [], "", ROWS_OF_A_PAGE, None)
    of_features = [kind for feature in visit.service.features for kind in feature.events.items()]
    return visit.page(
        "events.html",
        events=events,
        jobs=visit.service.board.some(event.job_id for event in events if event.job_id),
        chosen={"kind": kind, "by": by, "job": job},
        kinds=[*GROUPS.items(), *of_features, *KINDS.items()],
        filtered=bool(kind or by or job),
        more=page_request.address(visit, before=str(onward)) if onward else "",
        first=page_request.address(visit, before=None) if before else "",
    )


ROUTES: Final = (
    get("/", show),
    get("/workers", show_workers),
    post("/workers/{id}/drain", drain, Role.OPERATOR),
    post("/queues/{name}/pause", pause, Role.OPERATOR),
    post("/queues/{name}/resume", resume, Role.OPERATOR),
    get("/events", show_events),
)
