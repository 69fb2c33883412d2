"""The page of events."""

from typing import Final

from starlette.responses import Response

from ostinato.core.errors import OstinatoError
from ostinato.web import asked
from ostinato.web.routes import get
from ostinato.web.visit import Visit

PAGE: Final = 50
KINDS: Final = {
    "job.*": "jobs",
    "execution.*": "executions",
    "worker.*": "workers",
    "queue.*": "queues",
    "key.*": "API keys",
    "hook.*": "webhooks",
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
    "result.refused": "result refused",
    "database.went_back": "database went back",
    "result.held": "result not saved",
    "clock.jumped": "clock was set",
    "audit.flaw": "flaw found",
}


def show(visit: Visit) -> Response:
    """The audit log, the newest first."""
    kind, by, job = (asked.word(visit, name) for name in ("kind", "by", "job"))
    try:
        before = asked.id_asked(visit, "before")
        events, onward = visit.desk.board.audit(job or None, [kind] if kind else [], by, PAGE, before)
    except OstinatoError as error:
        visit, before = visit.troubled("filters", error), None
        events, onward = visit.desk.board.audit(None, [], "", PAGE, None)
    return visit.page(
        "events.html",
        events=events,
        jobs=visit.desk.board.some(event.job_id for event in events if event.job_id),
        chosen={"kind": kind, "by": by, "job": job},
        kinds=list(KINDS.items()),
        filtered=bool(kind or by or job),
        more=asked.address(visit, before=str(onward)) if onward else "",
        first=asked.address(visit, before=None) if before else "",
    )


ROUTES: Final = (get("/events", show),)
