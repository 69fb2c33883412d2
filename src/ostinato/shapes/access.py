"""Ending access: the requests, and the answer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Discriminator, Field, Tag

from ostinato.core.access import AccessEnding
from ostinato.shapes.base import RequestBody, Text


class EndToken(RequestBody):
    """End one token."""

    token: Text = Field(description="The token itself.", min_length=1, max_length=8192)


class EndName(RequestBody):
    """End every token of a name that was issued until now."""

    name: Text = Field(description="The `sub` of the tokens.", min_length=1, max_length=255)


class EndKey(RequestBody):
    """Revoke an API key."""

    key: UUID = Field(description="The id of the key.")


class EndAll(RequestBody):
    """End every token that was issued until now, every API key and every session."""

    all: Literal[True]


WAYS: Final = ("token", "name", "key", "all")


def _way(given: object) -> str:
    said = given if isinstance(given, Mapping) else {}
    return next((way for way in WAYS if way in said), "")


EndBody = Annotated[
    Annotated[EndToken, Tag("token")]
    | Annotated[EndName, Tag("name")]
    | Annotated[EndKey, Tag("key")]
    | Annotated[EndAll, Tag("all")],
    Discriminator(
        _way,
        custom_error_type="way",
        custom_error_message="Say which access to end: token, name, key, or all",
    ),
]


class EndedAnswer(BaseModel):
    """Access that was ended."""

    what: str = Field(description="`token:…`, `name:…`, `key:…` or `all`.")
    since: datetime = Field(description="Of a name, or of all: tokens issued until this instant are refused.")
    keys: int = Field(description="How many API keys were revoked.")
    sessions: int = Field(description="How many sessions of the dashboard were ended.")

    @classmethod
    def of(cls, ended: AccessEnding) -> Self:
        return cls(what=ended.what, since=ended.since, keys=ended.keys, sessions=ended.sessions)
