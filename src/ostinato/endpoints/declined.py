"""Declared jobs that were deleted: list them, and allow their creation again."""

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, Table
from ostinato.shapes.declined import DeclinedAnswer, DeclinedList, RedeclareBody, Redeclared

TABLE = Table("jobs")


@TABLE.get("/declined", Role.VIEWER)
def list_declined(ask: Ask) -> DeclinedList:
    """List the declared jobs that were deleted and stay deleted."""
    found = [DeclinedAnswer.of(row) for row in ask.service.declarations.declined()]
    return DeclinedList(declined=found, total=len(found))


@TABLE.post("/declined/redeclare", Role.ADMIN)
def redeclare_job(ask: Ask, body: RedeclareBody) -> Redeclared:
    """Allow a deleted job to be created again, when a process of its app starts."""
    return Redeclared.of(ask.service.declarations.redeclare(body.key, app=body.app, by=ask.by.name))
