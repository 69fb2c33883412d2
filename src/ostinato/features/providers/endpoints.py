"""Endpoints of providers, the request budgets of hosts. All callers may read them; admins edit."""

from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel

from ostinato.core.auth import secrets_of
from ostinato.features.providers.rules import Provider
from ostinato.features.providers.service import ProviderService
from ostinato.features.providers.shapes import HOST, BudgetBody, ProviderAnswer, ProviderBody, ProviderList
from ostinato.rest.caller import Admin
from ostinato.rest.dependencies import ServiceDep, part, warn
from ostinato.rest.routers import api_router
from ostinato.service import Service

router = api_router("providers")
Providers = Annotated[ProviderService, part(ProviderService)]

Domain = Annotated[
    str, Path(description="The domain of a provider.", json_schema_extra={"pattern": HOST, "maxLength": 253})
]


class ProviderGone(BaseModel):
    """The answer to a deletion."""

    message: str


@router.get("/providers")
def list_providers(providers: Providers) -> ProviderList:
    """List all providers, with their remaining budget and their waiting executions."""
    return ProviderList(providers=[ProviderAnswer.of(row) for row in providers.list()])


@router.post("/providers", status_code=201)
def create_provider(
    body: ProviderBody, service: ServiceDep, providers: Providers, by: Admin, response: Response
) -> ProviderAnswer:
    """Create a budget for a domain. All processes use it within seconds."""
    row = providers.create(body.new(), by=by.name)
    _warn(response, service, row.provider)
    return ProviderAnswer.of(row)


@router.get("/providers/{domain}")
def get_provider(domain: Domain, providers: Providers) -> ProviderAnswer:
    """Get a provider."""
    return ProviderAnswer.of(providers.get(domain))


@router.put("/providers/{domain}", responses={201: {"model": ProviderAnswer, "description": "Created"}})
def put_provider(
    domain: Domain, body: BudgetBody, service: ServiceDep, providers: Providers, by: Admin, response: Response
) -> ProviderAnswer:
    """Create or replace the budget of a domain. Requests already made still count."""
    row, is_new = providers.put(body.provider(domain), by=by.name)
    response.status_code = 201 if is_new else 200
    _warn(response, service, row.provider)
    return ProviderAnswer.of(row)


@router.delete("/providers/{domain}")
def delete_provider(domain: Domain, providers: Providers, by: Admin) -> ProviderGone:
    """Delete a provider. Requests to its hosts then have no budget."""
    providers.delete(domain, by=by.name)
    return ProviderGone(message=f"Provider {domain} was deleted.")


def _warn(response: Response, service: Service, provider: Provider) -> None:
    warn(response, service, () if provider.key is None else secrets_of(provider.key))
