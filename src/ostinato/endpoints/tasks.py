"""Tasks and their arguments."""

from typing import Annotated

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.shapes.tasks import TaskAnswer, TaskList

TABLE = Table("tasks")

Name = Annotated[str, InPath("name", "The name of a task.")]


@TABLE.get("/tasks", Role.VIEWER)
def list_tasks(ask: Ask) -> TaskList:
    """List all known tasks with their arguments."""
    found = [TaskAnswer.of(view) for view in ask.service.tasks.list()]
    return TaskList(tasks=found, total=len(found))


@TABLE.get("/tasks/{name}", Role.VIEWER)
def get_task(ask: Ask, name: Name) -> TaskAnswer:
    """Get a task: its args as a JSON schema, and whether the settings allow it."""
    return TaskAnswer.of(ask.service.tasks.get(name))
