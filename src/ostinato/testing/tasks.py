"""Tasks of a simulation: they all run on the loop, so that the timing of threads has no influence."""

import asyncio
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ostinato.task import Context, Registry, Task


class Script:
    """Replacements and durations that a test has set for tasks."""

    def __init__(self) -> None:
        self.takes: dict[str, timedelta] = {}
        self.instead: dict[str, Task[..., Any]] = {}


class SimulatedTask(Task[..., Any]):
    """A task that runs in the test's own thread and takes as long as the script says."""

    def __init__(
        self, real: Task[..., Any], script: Script, wrapped: Callable[[Task[..., Any]], Task[..., Any]]
    ) -> None:
        super().__init__(real.function, real.name)
        self.is_async = True
        self._script = script
        self._real = real
        self._wrapped = wrapped

    def arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        return self._current.arguments(args)

    async def call(self, context: Context, arguments: dict[str, Any]) -> Any:
        task = self._wrapped(self._current)
        result = task.call(context, arguments)
        if task.is_async:
            result = await result
        if (takes := self._script.takes.get(self.name)) is not None:
            await asyncio.sleep(takes.total_seconds())
        return result

    @property
    def _current(self) -> Task[..., Any]:
        return self._script.instead.get(self.name, self._real)


def simulated(registry: Registry, script: Script) -> Registry:
    """Return the same tasks, made for a simulation."""
    tasks = Registry()
    for name in registry.names():
        tasks.add(SimulatedTask(registry.get(name), script, registry.wrapped))
    return tasks


def named(function: Callable[..., Any], name: str) -> Task[..., Any]:
    """Make a function a task with this name."""
    return Task(function.function, name) if isinstance(function, Task) else Task(_plain(function), name)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a signature to a function without one, such as a mock."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return lambda **arguments: function(**arguments)
    return function
