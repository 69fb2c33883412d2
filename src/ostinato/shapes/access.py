"""Shapes of API keys, and of requests that end access."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, Self
from uuid import UUID

from pydantic import Discriminator, Field, Tag

from ostinato.core.access import Role
from ostinato.core.times import MICROSECOND
from ostinato.service.access import LONGEST_KEY_LIFE, NewKey
from ostinato.shapes.answers import Answer, JsonObject, described
from ostinato.shapes.base import Duration, RequestBody, Text
from ostinato.shapes.openapi import Within


class EndToken(RequestBody):
    """End one token."""

    token: Text = Field(description="The token itself.", min_length=1, max_length=8192)


class EndName(RequestBody):
    """End all tokens of a name issued until now."""

    name: Text = Field(description="The `sub` of the tokens.", min_length=1, max_length=255)


class EndKey(RequestBody):
    """Revoke an API key."""

    key: UUID = Field(description="The id of the key.")


class EndAll(RequestBody):
    """End all tokens issued until now, all API keys and all sessions."""

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


class EndedAnswer(Answer):
    """Access that was ended."""

    what: str = described("`token:…`, `name:…`, `key:…` or `all`.")
    since: datetime = described("For a name, or for all: tokens issued until this instant are refused.")
    keys: int = described("Number of revoked API keys.")
    sessions: int = described("Number of ended sessions of the dashboard.")


# -- Shapes of API keys. Only the answer to the creation contains the key itself


class KeyBody(RequestBody):
    """A new key."""

    name: Text = Field(
        description="The user or program; events name the caller key:NAME~ab12.", min_length=1, max_length=100,
        json_schema_extra={"format": "printable"},
    )  # fmt: skip
    role: Role = Field(description="The role of the key.")
    expires_in: Annotated[Duration, Within(MICROSECOND, LONGEST_KEY_LIFE)] | None = Field(
        None, description="Lifetime; if omitted, the key does not expire."
    )


class KeyAnswer(Answer):
    """A key without its secret."""

    id: UUID
    prefix: str
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str


class NewKeyAnswer(KeyAnswer):
    """A new key with its secret, which is shown only once."""

    key: str

    @classmethod
    def made(cls, new: NewKey) -> Self:
        return cls(**vars(KeyAnswer.of(new.row)), key=new.text)


class KeyList(JsonObject):
    """A page of keys, the newest first."""

    keys: list[KeyAnswer]
