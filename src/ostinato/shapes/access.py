"""Shapes of requests that end access, and their answer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Discriminator, Field, Tag

from ostinato.shapes.answers import Answer, told
from ostinato.shapes.base import RequestBody, Text


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

    what: str = told("`token:…`, `name:…`, `key:…` or `all`.")
    since: datetime = told("For a name, or for all: tokens issued until this instant are refused.")
    keys: int = told("Number of revoked API keys.")
    sessions: int = told("Number of ended sessions of the dashboard.")
