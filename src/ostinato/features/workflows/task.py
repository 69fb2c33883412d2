"""The task of a job that runs a workflow: it queues the first steps; settling a step queues the next ones."""

from typing import Any, Final

from ostinato.task import Task
from ostinato.task.signals import Begin


async def workflow(
    workflow: int | str, trigger: str | None = None, payload: Any = None, event: str = "schedule"
) -> None:
    """Begin a workflow. Settling this run looks up its graph and trigger."""
    raise Begin


TASKS: Final = {"workflow": Task(workflow)}
