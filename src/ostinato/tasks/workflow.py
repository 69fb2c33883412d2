"""The task of a job that runs a workflow: it begins, and lets go. The rest is done by settling its steps."""

from typing import Any

from ostinato.task import Task
from ostinato.task.signals import Begin


async def workflow(
    workflow: int | str, trigger: str | None = None, payload: Any = None, event: str = "schedule"
) -> None:
    """Which graph it is, and whether a trigger of it matches, is looked up by whoever settles this."""
    raise Begin


TASK = Task(workflow)
