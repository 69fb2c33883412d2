"""Endpoints of webhooks and their deliveries. For admins only, because a URL may contain a secret."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel

from ostinato.features.notifications.service import HookService
from ostinato.features.notifications.shapes import (
    DeliveryAnswer,
    DeliveryList,
    HookAnswer,
    HookBody,
    HookList,
    State,
    TestAnswer,
)
from ostinato.rest.caller import Admin
from ostinato.rest.dependencies import ServiceDep, part, warn
from ostinato.rest.routers import api_router

router = api_router("hooks")
Hooks = Annotated[HookService, part(HookService)]

Id = Annotated[UUID, Path(alias="id")]


class HookGone(BaseModel):
    """The answer to a deletion."""

    message: str


@router.post("/hooks", status_code=201)
def create_hook(
    body: HookBody, request: Request, service: ServiceDep, hooks: Hooks, by: Admin, response: Response
) -> HookAnswer:
    """Create a webhook. All processes use it within seconds."""
    allowed = request.app.state.settings.allow_private_addresses
    made = hooks.create(body.new_hook(), by=by.name, egress=allowed)
    warn(response, service, [made.hook.secret] if made.hook.secret else [])
    return HookAnswer.of(made)


@router.get("/hooks")
def list_hooks(hooks: Hooks, by: Admin) -> HookList:
    """List all webhooks, with the number of their notices by state."""
    return HookList(hooks=[HookAnswer.of(view) for view in hooks.list()])


@router.get("/hooks/{id}")
def get_hook(hook_id: Id, hooks: Hooks, by: Admin) -> HookAnswer:
    """Get a webhook."""
    return HookAnswer.of(hooks.get(hook_id))


@router.delete("/hooks/{id}")
def delete_hook(hook_id: Id, hooks: Hooks, by: Admin) -> HookGone:
    """Delete a webhook. Pending notices are not sent."""
    hooks.delete(hook_id, by=by.name)
    return HookGone(message=f"Hook {hook_id} was deleted.")


@router.post("/hooks/{id}/test", status_code=202)
def test_hook(hook_id: Id, hooks: Hooks, by: Admin) -> TestAnswer:
    """Send a notice of the kind `test`."""
    return TestAnswer(delivery_id=hooks.test(hook_id, by=by.name))


@router.get("/hooks/{id}/deliveries")
def list_deliveries(
    hook_id: Id,
    hooks: Hooks,
    by: Admin,
    state: Annotated[State | None, Query(description="Only deliveries in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    before: Annotated[UUID | None, Query(description="The last delivery of the page before.")] = None,
) -> DeliveryList:
    """List the deliveries of a webhook, the newest first."""
    found = hooks.deliveries(hook_id, limit, before, state or "")
    return DeliveryList(deliveries=[DeliveryAnswer.of(each) for each in found])
