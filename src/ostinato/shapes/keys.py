"""Shapes of API keys. Only the answer to the creation contains the key itself."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field

from ostinato.core.access import Role
from ostinato.core.duration import MICROSECOND
from ostinato.service.keys import LONGEST_LIFE, NewKey
from ostinato.shapes.answers import Answer, JsonObject
from ostinato.shapes.base import Duration, RequestBody, Text
from ostinato.shapes.openapi import Within


class KeyBody(RequestBody):
    """A new key."""

    name: Text = Field(
        description="The user or program; events name the caller key:NAME~ab12.", min_length=1, max_length=100,
        json_schema_extra={"format": "printable"},
    )  # fmt: skip
    role: Role = Field(description="The role of the key.")
    expires_in: Annotated[Duration, Within(MICROSECOND, LONGEST_LIFE)] | None = Field(
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
