"""Endpoints of tasks and their arguments."""

from typing import Annotated

from fastapi import Path

from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.shapes.tasks import TaskAnswer, TaskList

router = api_router("tasks")

Name = Annotated[str, Path(alias="name", description="The name of a task.", max_length=200)]


@router.get("/tasks")
def list_tasks(service: ServiceDep, by: Viewer) -> TaskList:
    """List all known tasks with their arguments."""
    found = [TaskAnswer.of(view) for view in service.tasks.list()]
    return TaskList(tasks=found, total=len(found))


@router.get("/tasks/{name}")
def get_task(name: Name, service: ServiceDep, by: Viewer) -> TaskAnswer:
    """Get a task: its args as a JSON schema, and whether the settings allow it."""
    return TaskAnswer.of(service.tasks.get(name))
