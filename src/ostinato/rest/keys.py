"""Endpoints of API keys, for admins: create, list, revoke."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request, Response

from ostinato.rest.caller import Admin
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.shapes.keys import KeyAnswer, KeyBody, KeyList, NewKeyAnswer

router = api_router("keys")

Id = Annotated[UUID, Path(alias="id")]


@router.post("/keys", status_code=201)
def create_key(body: KeyBody, service: ServiceDep, by: Admin, request: Request, response: Response) -> NewKeyAnswer:
    """Create an API key. Only this answer contains the key."""
    response.headers["Cache-Control"] = "no-store"
    check = request.state.check
    return NewKeyAnswer.made(service.keys.create(body.name, body.role, body.expires_in, by=by.name, check=check))


@router.get("/keys")
def list_keys(
    service: ServiceDep,
    by: Admin,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    before: Annotated[UUID | None, Query(description="The last key of the page before.")] = None,
) -> KeyList:
    """List all API keys, also revoked ones, the newest first."""
    return KeyList(keys=[KeyAnswer.of(row) for row in service.keys.list(limit, before)])


@router.delete("/keys/{id}")
def revoke_key(key_id: Id, service: ServiceDep, by: Admin) -> KeyAnswer:
    """Revoke an API key. It stops working at once; its row stays and records the caller."""
    return KeyAnswer.of(service.keys.revoke(key_id, by=by.name))
