"""Shapes of tasks."""

from typing import Annotated, Any, Literal

from ostinato.shapes.answers import Answer, JsonObject, Out, told


class TaskAnswer(Answer):
    """A task and its arguments."""

    name: str
    origin: Literal["built_in", "own", "elsewhere"] = told(
        "built_in: part of Ostinato; own: of this app; elsewhere: known only to other processes."
    )
    help: str
    args: dict[str, Any] | None = told("A JSON schema of its args; null if no worker has described the task.")
    allowed: Annotated[bool, Out("off", lambda off: off is None)] = told(
        "Whether the settings of this process allow jobs with it."
    )
    reason: Annotated[str | None, Out("off")] = told("Why the task is not allowed, and which setting allows it.")


class TaskList(JsonObject):
    """All known tasks by name."""

    tasks: list[TaskAnswer]
    total: int
