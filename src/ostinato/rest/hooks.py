"""Endpoints of webhooks and their deliveries. For admins only, because a URL may contain a secret."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel

from ostinato.rest.caller import Admin
from ostinato.rest.dependencies import ServiceDep, warn
from ostinato.rest.routers import api_router
from ostinato.shapes.hooks import (
    DeliveryAnswer,
    DeliveryList,
    HookAnswer,
    HookBody,
    HookList,
    State,
    TestAnswer,
)

router = api_router("hooks")

Id = Annotated[UUID, Path(alias="id")]


class HookGone(BaseModel):
    """The answer to a deletion."""

    message: str


@router.post("/hooks", status_code=201)
def create_hook(body: HookBody, request: Request, service: ServiceDep, by: Admin, response: Response) -> HookAnswer:
    """Create a webhook. All processes use it within seconds."""
    allowed = request.app.state.settings.allow_private_addresses
    made = service.hooks.create(body.new_hook(), by=by.name, egress=allowed)
    warn(response, service, [made.hook.secret] if made.hook.secret else [])
    return HookAnswer.of(made)


@router.get("/hooks")
def list_hooks(service: ServiceDep, by: Admin) -> HookList:
    """List all webhooks, with the number of their notices by state."""
    return HookList(hooks=[HookAnswer.of(view) for view in service.hooks.list()])


@router.get("/hooks/{id}")
def get_hook(hook_id: Id, service: ServiceDep, by: Admin) -> HookAnswer:
    """Get a webhook."""
    return HookAnswer.of(service.hooks.get(hook_id))


@router.delete("/hooks/{id}")
def delete_hook(hook_id: Id, service: ServiceDep, by: Admin) -> HookGone:
    """Delete a webhook. Pending notices are not sent."""
    service.hooks.delete(hook_id, by=by.name)
    return HookGone(message=f"Hook {hook_id} was deleted.")


@router.post("/hooks/{id}/test", status_code=202)
def test_hook(hook_id: Id, service: ServiceDep, by: Admin) -> TestAnswer:
    """Send a notice of the kind `test`."""
    return TestAnswer(delivery_id=service.hooks.test(hook_id, by=by.name))


@router.get("/hooks/{id}/deliveries")
def list_deliveries(
    hook_id: Id,
    service: ServiceDep,
    by: Admin,
    state: Annotated[State | None, Query(description="Only deliveries in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    before: Annotated[UUID | None, Query(description="The last delivery of the page before.")] = None,
) -> DeliveryList:
    """List the deliveries of a webhook, the newest first."""
    found = service.hooks.deliveries(hook_id, limit, before, state or "")
    return DeliveryList(deliveries=[DeliveryAnswer.of(each) for each in found])
