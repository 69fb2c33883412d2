"""Tasks: which there are, and what they take."""

from typing import Annotated

from fastapi import Path

from ostinato.api.caller import Viewer
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.wire.tasks import TaskAnswer, TaskList

router = api_router("tasks")

Name = Annotated[str, Path(alias="name", description="The name of a task.", max_length=200)]


@router.get("/tasks")
def list_tasks(desk: Desk, by: Viewer) -> TaskList:
    """Every task that somebody is known to run, with what it takes."""
    found = [TaskAnswer.of(view) for view in desk.tasks.list()]
    return TaskList(tasks=found, total=len(found))


@router.get("/tasks/{name}")
def get_task(name: Name, desk: Desk, by: Viewer) -> TaskAnswer:
    """One task: its args as a JSON schema, and whether it may be used here."""
    return TaskAnswer.of(desk.tasks.get(name))
