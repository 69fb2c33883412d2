"""Endpoints of providers, the request budgets of hosts. All callers may read them; admins edit."""

from typing import Annotated, Final

from ostinato.core.access import Role
from ostinato.core.auth import secrets_of
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.providers.rules import ProviderRow
from ostinato.features.providers.service import ProviderService
from ostinato.features.providers.shapes import (
    HOST,
    BudgetBody,
    ProviderAnswer,
    ProviderBody,
    ProviderGone,
    ProviderList,
)
from ostinato.shapes.queries import like

TABLE: Final = Table("providers")

Domain = Annotated[str, InPath("domain", "The domain of a provider.", like(HOST, maxLength=253))]


@TABLE.get("/providers", Role.VIEWER)
def list_providers(ask: Ask) -> ProviderList:
    """List all providers, with their remaining budget and their waiting executions."""
    return ProviderList(providers=[ProviderAnswer.of(row) for row in ask.part(ProviderService).list()])


@TABLE.post("/providers", Role.ADMIN, status=201)
def create_provider(ask: Ask, body: ProviderBody) -> ProviderAnswer:
    """Create a budget for a domain. All processes use it within seconds."""
    return _saved(ask, ask.part(ProviderService).create(body.new(), by=ask.by.name))


@TABLE.get("/providers/{domain}", Role.VIEWER)
def get_provider(ask: Ask, domain: Domain) -> ProviderAnswer:
    """Get a provider."""
    return ProviderAnswer.of(ask.part(ProviderService).get(domain))


@TABLE.put("/providers/{domain}", Role.ADMIN, also={201: "Created"})
def put_provider(ask: Ask, domain: Domain, body: BudgetBody) -> ProviderAnswer:
    """Create or replace the budget of a domain. Requests already made still count."""
    row, is_new = ask.part(ProviderService).put(body.provider(domain), by=ask.by.name)
    ask.status = 201 if is_new else 200
    return _saved(ask, row)


@TABLE.delete("/providers/{domain}", Role.ADMIN)
def delete_provider(ask: Ask, domain: Domain) -> ProviderGone:
    """Delete a provider. Requests to its hosts then have no budget."""
    ask.part(ProviderService).delete(domain, by=ask.by.name)
    return ProviderGone(message=f"Provider {domain} was deleted.")


def _saved(ask: Ask, row: ProviderRow) -> ProviderAnswer:
    """Return the answer for a saved provider, with a warning for a secret that is not granted on this host."""
    ask.warn(() if row.provider.key is None else secrets_of(row.provider.key))
    return ProviderAnswer.of(row)
