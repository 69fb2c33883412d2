"""The page of workers, their executions and queues."""

import json
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from ostinato.core.access import Role
from ostinato.core.errors import OstinatoError
from ostinato.web import asked
from ostinato.web.routes import get, post
from ostinato.web.visit import Visit


def show(visit: Visit) -> Response:
    """Workers and queues."""
    team = visit.desk.board.team()
    return visit.page(
        "workers.html",
        at_work=[each for each in team if each.worker.closed_at is None],
        gone=[each for each in team if each.worker.closed_at is not None],
        queues_of={each.worker.id: json.loads(each.worker.queues) for each in team},
        queues=visit.desk.queues(),
        jobs=visit.desk.board.some(run.job_id for each in team for run in each.runs),
        quote=quote,
    )


def drain(visit: Visit) -> Response:
    """Let a worker finish what it runs, and claim no more."""
    try:
        visit.desk.drain(asked.id_in_path(visit), by=visit.by)
    except OstinatoError as error:
        return show(visit.troubled("workers", error))
    return visit.see("/workers", "The worker claims no more, and goes when it has finished.")


def pause(visit: Visit) -> Response:
    name = visit.part("name")
    try:
        visit.desk.pause_queue(name, by=visit.by)
    except OstinatoError as error:
        return show(visit.troubled("queues", error))
    return visit.see("/workers#queues", f"The queue {name} is paused: nothing of it starts.")


def resume(visit: Visit) -> Response:
    name = visit.part("name")
    try:
        visit.desk.resume_queue(name, by=visit.by)
    except OstinatoError as error:
        return show(visit.troubled("queues", error))
    return visit.see("/workers#queues", f"The queue {name} goes on.")


ROUTES: Final = (
    get("/workers", show),
    post("/workers/{id}/drain", drain, Role.OPERATOR),
    post("/queues/{name}/pause", pause, Role.OPERATOR),
    post("/queues/{name}/resume", resume, Role.OPERATOR),
)
