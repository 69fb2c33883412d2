"""Shapes of deleted declared jobs."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from ostinato.core.model import DeclinedJob
from ostinato.shapes.answers import Answer, JsonObject, Out
from ostinato.shapes.base import RequestBody, Text


class RedeclareBody(RequestBody):
    """The deleted job that its app may create again."""

    key: Text = Field(max_length=200, description="The key of the declared job.")
    app: Text | None = Field(None, max_length=200, description="The app, if several apps have this key.")


class DeclinedAnswer(Answer):
    """A deleted declared job, with the time and the caller of the deletion."""

    app: str
    key: str
    deleted_at: Annotated[datetime, Out("at")]
    deleted_by: Annotated[str, Out("by")]


class DeclinedList(JsonObject):
    """All declared jobs that stay deleted."""

    declined: list[DeclinedAnswer]
    total: int


class Redeclared(JsonObject):
    """A declared job that its app may create again."""

    app: str
    key: str
    message: str

    @classmethod
    def of(cls, row: DeclinedJob) -> "Redeclared":
        app = f"the app {row.app}" if row.app else "its app"
        message = f"{row.key} is created again when a process of {app} starts."
        return cls(app=row.app, key=row.key, message=message)
