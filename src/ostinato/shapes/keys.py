"""API keys, in and out. The key itself goes out once, in the answer that made it."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from ostinato.core.access import Role
from ostinato.core.duration import MICROSECOND
from ostinato.service.keys import LONGEST_LIFE, NewKey
from ostinato.shapes.base import Duration, RequestBody, Text
from ostinato.shapes.openapi import Within
from ostinato.store.keys import KeyRow


class KeyBody(RequestBody):
    """A key to be made."""

    name: Text = Field(
        description="Whose it is; events say key:NAME~ab12.", min_length=1, max_length=100,
        json_schema_extra={"format": "printable"},
    )  # fmt: skip
    role: Role = Field(description="What it is good for.")
    expires_in: Annotated[Duration, Within(MICROSECOND, LONGEST_LIFE)] | None = Field(
        None, description="For how long it is good; left out: until it is revoked."
    )


class KeyAnswer(BaseModel):
    """A key, without what opens the door."""

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

    @classmethod
    def of(cls, row: KeyRow) -> Self:
        return cls.model_validate({name: getattr(row, name) for name in KeyAnswer.model_fields})


class NewKeyAnswer(KeyAnswer):
    """A key that was just made. It is not shown again."""

    key: str

    @classmethod
    def made(cls, new: NewKey) -> Self:
        return cls.model_validate({**KeyAnswer.of(new.row).model_dump(), "key": new.text})


class KeyList(BaseModel):
    """A page of keys, the newest first."""

    keys: list[KeyAnswer]
