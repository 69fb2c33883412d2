"""The page of workers, their executions and queues."""

import json
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError
from ostinato.dashboard import query
from ostinato.dashboard.page_request import PageRequest
from ostinato.dashboard.routes import get, post


def show(visit: PageRequest) -> Response:
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
        visit.service.drain(query.id_in_path(visit), by=visit.by)
    except OstinatoError as error:
        return show(visit.with_error("workers", error))
    return visit.redirect("/workers", "The worker claims no more runs, and stops when its runs have finished.")


def pause(visit: PageRequest) -> Response:
    name = visit.path_param("name")
    try:
        visit.service.pause_queue(name, by=visit.by)
    except OstinatoError as error:
        return show(visit.with_error("queues", error))
    return visit.redirect("/workers#queues", f"The queue {name} is paused: no runs start from it.")


def resume(visit: PageRequest) -> Response:
    name = visit.path_param("name")
    try:
        visit.service.resume_queue(name, by=visit.by)
    except OstinatoError as error:
        return show(visit.with_error("queues", error))
    return visit.redirect("/workers#queues", f"The queue {name} is resumed.")


ROUTES: Final = (
    get("/workers", show),
    post("/workers/{id}/drain", drain, Role.OPERATOR),
    post("/queues/{name}/pause", pause, Role.OPERATOR),
    post("/queues/{name}/resume", resume, Role.OPERATOR),
)
