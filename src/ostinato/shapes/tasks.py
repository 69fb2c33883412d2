"""Tasks, going out."""

from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from ostinato.service.tasks import TaskView


class TaskAnswer(BaseModel):
    """A task, and what it takes."""

    name: str
    origin: Literal["built_in", "own", "elsewhere"] = Field(
        description="built_in: one of ours; own: of the app that answers; elsewhere: only other processes know it."
    )
    help: str
    args: dict[str, Any] | None = Field(
        description="A JSON schema of its args; null if no worker has described the task."
    )
    allowed: bool = Field(description="Whether jobs may be made of it here.")
    reason: str | None = Field(description="Why not, and which setting allows it.")

    @classmethod
    def of(cls, view: TaskView) -> Self:
        return cls(
            name=view.name, origin=view.origin, help=view.help, args=view.args, allowed=view.off is None,
            reason=view.off,
        )  # fmt: skip


class TaskList(BaseModel):
    """Every task that somebody is known to run, by name."""

    tasks: list[TaskAnswer]
    total: int
