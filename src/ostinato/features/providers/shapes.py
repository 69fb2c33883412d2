"""Shapes of providers. A key contains the reference to a secret, never the secret."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from ostinato.core.times import format_duration
from ostinato.features.providers.rules import PERIODS, Provider, key_written, make_provider, parse_key
from ostinato.shapes.answers import Answer, JsonObject, Out
from ostinato.shapes.base import Duration, RequestBody, Text, Whole
from ostinato.shapes.openapi import Within, auth

# The same rule as in rules.py: any case, and dots at the end are allowed.
HOST: Final = r"^((?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9_-]{1,63})*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*[0-9A-Fa-f:])\.*$"


class BudgetBody(RequestBody):
    """The budget of a domain."""

    limit: Whole = Field(description="Maximum number of requests of all workers.", ge=1, le=100_000)
    period: Annotated[Duration, Within(*PERIODS)] = Field(description="The length of the time window for the limit.")
    key: Annotated[dict[str, Any], WithJsonSchema(auth("bearer", "header", "query"))] | None = Field(
        None,
        description="Credential of each request: type (header, query or bearer), name, and as value (or token) the "
        "reference to the secret, env:SECRET_NAME or file:/run/secrets/NAME.",
    )

    def provider(self, domain: str) -> Provider:
        key = None if self.key is None else parse_key(self.key)
        return make_provider(domain, self.limit, self.period, key)


class ProviderBody(BudgetBody):
    """A new provider."""

    domain: Text = Field(
        description="The name of a host, such as api.example.org. Its subdomains share the budget.",
        json_schema_extra={"pattern": HOST, "maxLength": 253},
    )

    def new(self) -> Provider:
        return self.provider(self.domain)


class ProviderAnswer(Answer):
    """A provider, with its remaining budget and its waiting executions."""

    domain: Annotated[str, Out("provider.domain")]
    limit: Annotated[int, Out("provider.limit")]
    period: Annotated[str, Out("provider.period", format_duration)]
    key: Annotated[dict[str, str] | None, Out("provider.key", lambda key: None if key is None else key_written(key))]
    left: int
    waiting: int
    saved_at: datetime
    saved_by: str


class ProviderList(JsonObject):
    """All providers by domain."""

    providers: list[ProviderAnswer]


class ProviderGone(JsonObject):
    """The answer to a deletion."""

    message: str
