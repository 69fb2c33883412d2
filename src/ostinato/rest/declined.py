"""Endpoints of deleted declared jobs: list them, and allow their creation again."""

from ostinato.rest.caller import Admin, Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.shapes.declined import DeclinedAnswer, DeclinedList, RedeclareBody, Redeclared

router = api_router("jobs")


@router.get("/declined")
def list_declined(service: ServiceDep, by: Viewer) -> DeclinedList:
    """List the declared jobs that were deleted and stay deleted."""
    found = [DeclinedAnswer.of(row) for row in service.declarations.declined()]
    return DeclinedList(declined=found, total=len(found))


@router.post("/declined/redeclare")
def redeclare_job(body: RedeclareBody, service: ServiceDep, by: Admin) -> Redeclared:
    """Allow a deleted job to be created again, when a process of its app starts."""
    return Redeclared.of(service.declarations.redeclare(body.key, app=body.app, by=by.name))
