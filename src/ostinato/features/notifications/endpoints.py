"""Endpoints of webhooks and their deliveries. For admins only, because a URL may contain a secret."""

from typing import Annotated, Final
from uuid import UUID

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.notifications.service import HookService
from ostinato.features.notifications.shapes import (
    DeliveryAnswer,
    DeliveryList,
    DeliveryQuery,
    HookAnswer,
    HookBody,
    HookGone,
    HookList,
    TestAnswer,
)
from ostinato.shapes.queries import ID

TABLE: Final = Table("hooks")

HookId = Annotated[UUID, InPath("id", "The id of a webhook.", ID)]


@TABLE.post("/hooks", Role.ADMIN, status=201)
def create_hook(ask: Ask, body: HookBody) -> HookAnswer:
    """Create a webhook. All processes use it within seconds."""
    made = ask.part(HookService).create(body.new_hook(), by=ask.by.name, egress=ask.service.known.permits.egress)
    ask.warn([made.hook.secret] if made.hook.secret else [])
    return HookAnswer.of(made)


@TABLE.get("/hooks", Role.ADMIN)
def list_hooks(ask: Ask) -> HookList:
    """List all webhooks, with the number of their notices by state."""
    return HookList(hooks=[HookAnswer.of(view) for view in ask.part(HookService).list()])


@TABLE.get("/hooks/{id}", Role.ADMIN)
def get_hook(ask: Ask, hook_id: HookId) -> HookAnswer:
    """Get a webhook."""
    return HookAnswer.of(ask.part(HookService).get(hook_id))


@TABLE.delete("/hooks/{id}", Role.ADMIN)
def delete_hook(ask: Ask, hook_id: HookId) -> HookGone:
    """Delete a webhook. Pending notices are not sent."""
    ask.part(HookService).delete(hook_id, by=ask.by.name)
    return HookGone(message=f"Hook {hook_id} was deleted.")


@TABLE.post("/hooks/{id}/test", Role.ADMIN, status=202)
def test_hook(ask: Ask, hook_id: HookId) -> TestAnswer:
    """Send a notice of the kind `test`."""
    return TestAnswer(delivery_id=ask.part(HookService).test(hook_id, by=ask.by.name))


@TABLE.get("/hooks/{id}/deliveries", Role.ADMIN)
def list_deliveries(ask: Ask, hook_id: HookId, asked: DeliveryQuery) -> DeliveryList:
    """List the deliveries of a webhook, the newest first."""
    found = ask.part(HookService).deliveries(hook_id, asked.limit, asked.before, asked.state or "")
    return DeliveryList(deliveries=[DeliveryAnswer.of(each) for each in found])
