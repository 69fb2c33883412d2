"""Declared jobs that were deleted: list them, and bring them back."""

from ostinato.api.caller import Admin, Viewer
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.wire.declined import DeclinedAnswer, DeclinedList, RedeclareBody, Redeclared

router = api_router("jobs")


@router.get("/declined")
def list_declined(desk: Desk, by: Viewer) -> DeclinedList:
    """List the declared jobs that were deleted and stay deleted."""
    found = [DeclinedAnswer.of(row) for row in desk.declarations.declined()]
    return DeclinedList(declined=found, total=len(found))


@router.post("/declined/redeclare")
def redeclare_job(body: RedeclareBody, desk: Desk, by: Admin) -> Redeclared:
    """Let a deleted job be made again, when a process of its app starts."""
    return Redeclared.of(desk.declarations.redeclare(body.key, app=body.app, by=by.name))
