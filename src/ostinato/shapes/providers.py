"""Providers, in and out. A key is named by where its secret is; the secret itself goes nowhere."""

from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, Field, WithJsonSchema

from ostinato.core.duration import format_duration
from ostinato.core.providers import PERIODS, Provider, make_provider, parse_key
from ostinato.shapes.base import Duration, RequestBody, Text, Whole
from ostinato.shapes.openapi import Within, auth
from ostinato.store.providers import ProviderRow, key_written

# As core/providers.py reads it: any case, and a dot at the end.
HOST: Final = (
    r"^((?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9_-]{1,63})*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*[0-9A-Fa-f:])\.*$"
)


class BudgetBody(RequestBody):
    """The budget of a domain."""

    limit: Whole = Field(description="So many requests, of all workers together.", ge=1, le=100_000)
    period: Annotated[Duration, Within(*PERIODS)] = Field(description="In any stretch of this length.")
    key: Annotated[dict[str, Any], WithJsonSchema(auth("bearer", "header", "query"))] | None = Field(
        None,
        description="What each request to it carries: type (header, query or bearer), name, and as value (or token) "
        "where the secret is, env:SECRET_NAME or file:/run/secrets/NAME.",
    )

    def provider(self, domain: str) -> Provider:
        key = None if self.key is None else parse_key(self.key)
        return make_provider(domain, self.limit, self.period, key)


class ProviderBody(BudgetBody):
    """A provider to be made."""

    domain: Text = Field(
        description="The name of a host, such as api.example.org; all below it share its budget.",
        json_schema_extra={"pattern": HOST, "maxLength": 253},
    )

    def new(self) -> Provider:
        return self.provider(self.domain)


class ProviderAnswer(BaseModel):
    """A provider, what is left of its budget now, and how many live executions wait for it."""

    domain: str
    limit: int
    period: str
    key: dict[str, str] | None
    left: int
    waiting: int
    saved_at: datetime
    saved_by: str

    @classmethod
    def of(cls, row: ProviderRow) -> Self:
        provider = row.provider
        return cls(
            domain=provider.domain, limit=provider.limit, period=format_duration(provider.period),
            key=None if provider.key is None else key_written(provider.key), left=row.left, waiting=row.waiting,
            saved_at=row.saved_at, saved_by=row.saved_by,
        )  # fmt: skip


class ProviderList(BaseModel):
    """Every provider, by domain."""

    providers: list[ProviderAnswer]
