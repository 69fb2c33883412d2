"""The tasks that a process knows, by name."""

from typing import Any

from ostinato.core.errors import Invalid, UnknownTask
from ostinato.task.task import Task


class Registry:
    """Tasks by name; a name means one task."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}

    def add(self, task: Task[..., Any]) -> None:
        """Make a task known. The same function may be added twice, another under its name may not."""
        known = self._tasks.get(task.name)
        if known is not None and known.function != task.function:
            raise Invalid(
                f"There is already a task named {task.name!r} ({known.where}); give {task.where} another name."
            )
        self._tasks[task.name] = task

    def get(self, name: str) -> Task[..., Any]:
        """The task of that name."""
        task = self._tasks.get(name)
        if task is None:
            raise UnknownTask(f"There is no task named {name!r}{self._did_you_mean(name)}")
        return task

    def names(self) -> tuple[str, ...]:
        """What is known here, sorted."""
        return tuple(sorted(self._tasks))

    def _did_you_mean(self, name: str) -> str:
        from difflib import get_close_matches  # only mistakes pay for it

        close = get_close_matches(name, self._tasks, n=1)
        return f"; did you mean {close[0]!r}?" if close else "; register it, or correct the name."
