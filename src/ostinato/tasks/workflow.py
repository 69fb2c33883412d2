"""The task of a job that runs a workflow: it begins, and lets go. The rest is done by settling its steps."""

from typing import Any

from ostinato.task import Task
from ostinato.task.signals import Begin


async def workflow(
    workflow: int | str, trigger: str | None = None, payload: Any = None, event: str = "schedule"
) -> None:
    """Begin a workflow. The settle looks up its graph and trigger."""
    raise Begin


TASK = Task(workflow)
