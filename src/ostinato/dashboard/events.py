"""The page of events."""

from typing import Final

from starlette.responses import Response

from ostinato.core.errors import OstinatoError
from ostinato.dashboard import query
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get

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


def show(visit: PageRequest) -> Response:
    """Show the audit log, the newest events first."""
    kind, by, job = (query.word(visit, name) for name in ("kind", "by", "job"))
    try:
        before = query.id_asked(visit, "before")
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
        more=query.address(visit, before=str(onward)) if onward else "",
        first=query.address(visit, before=None) if before else "",
    )


ROUTES: Final = (get("/events", show),)
