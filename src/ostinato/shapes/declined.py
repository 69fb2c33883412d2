"""Declared jobs that were deleted, in and out."""

from datetime import datetime

from pydantic import BaseModel, Field

from ostinato.core.model import DeclinedJob
from ostinato.shapes.base import RequestBody, Text


class RedeclareBody(RequestBody):
    """The deleted job that its declaration may make again."""

    key: Text = Field(max_length=200, description="The key of the declared job.")
    app: Text | None = Field(None, max_length=200, description="Its app, if several have deleted that key.")


class DeclinedAnswer(BaseModel):
    """A declared job that was deleted: when, and by which caller."""

    app: str
    key: str
    deleted_at: datetime
    deleted_by: str

    @classmethod
    def of(cls, row: DeclinedJob) -> "DeclinedAnswer":
        return cls(app=row.app, key=row.key, deleted_at=row.at, deleted_by=row.by)


class DeclinedList(BaseModel):
    """The declared jobs that stay deleted."""

    declined: list[DeclinedAnswer]
    total: int


class Redeclared(BaseModel):
    """A declared job that may be made again."""

    app: str
    key: str
    message: str

    @classmethod
    def of(cls, row: DeclinedJob) -> "Redeclared":
        app = f"the app {row.app}" if row.app else "its app"
        message = f"{row.key} is made again when a process of {app} starts."
        return cls(app=row.app, key=row.key, message=message)
