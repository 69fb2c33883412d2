"""What an app registers, by name: tasks, and the resources that they share."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ostinato.core.errors import Invalid, UnknownTask
from ostinato.task.around import Arounds, RunTracer
from ostinato.task.task import Task


class Registry:
    """Tasks by name; a name means one task."""

    def __init__(self, built_in: Mapping[str, Callable[[], Task[..., Any]]] = {}, app: str = "") -> None:
        """`built_in` tasks are loaded when needed; a user's task of the same name replaces one."""
        self.arounds = Arounds(app)
        self.tracer: RunTracer | None = None
        self._tasks: dict[str, Task[..., Any]] = {}
        self._built_in = dict(built_in)

    def replace_built_in(self, built_in: Mapping[str, Callable[[], Task[..., Any]]]) -> None:
        """Offer other built-in tasks from now on."""
        self._built_in = {name: load for name, load in built_in.items() if name not in self._tasks}

    def add(self, task: Task[..., Any]) -> None:
        """Register a task. The same function may be added twice; another function needs another name."""
        known = self._tasks.get(task.name)
        if known is not None and known.function != task.function:
            raise Invalid(
                f"There is already a task named {task.name!r} ({known.where}); give {task.where} another name."
            )
        self._tasks[task.name] = task
        self._built_in.pop(task.name, None)

    def get(self, name: str) -> Task[..., Any]:
        """Return the task of that name; raise UnknownTask without one."""
        task = self._tasks.get(name) or self._loaded(name)
        if task is None:
            raise UnknownTask(f"There is no task named {name!r}{self._did_you_mean(name)}")
        return task

    def wrapped(self, task: Task[..., Any]) -> Task[..., Any]:
        """Return the task inside what this app runs around it."""
        if not self.arounds.registered:
            return task
        return self.arounds.wrapping(task, built_in=self.is_built_in(task.name))

    def own(self, name: str) -> Task[..., Any] | None:
        """Return the user's task of that name, or None."""
        return self._tasks.get(name)

    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all tasks."""
        return tuple(sorted({*self._tasks, *self._built_in}))

    def is_built_in(self, name: str) -> bool:
        """Return True if this name is a built-in task, not a user's."""
        return name in self._built_in

    def _loaded(self, name: str) -> Task[..., Any] | None:
        load = self._built_in.get(name)
        if load is None:
            return None
        self._built_in[name] = lambda: task
        task = load()
        return task

    def _did_you_mean(self, name: str) -> str:
        from difflib import get_close_matches  # imported only for errors

        close = get_close_matches(name, self.names(), n=1)
        return f"; did you mean {close[0]!r}?" if close else "; register it, or correct the name."


# -- A resource: what tasks share, such as a pool of connections. It is opened at first use, and closed at the end

T = TypeVar("T")


class Resource(Generic[T]):
    """A value that tasks share: `ctx.use(resource)` opens it at first use."""

    __slots__ = ("__weakref__", "function", "is_async", "name")

    def __init__(self, function: Callable[[], Iterator[T]] | Callable[[], AsyncIterator[T]]) -> None:
        self.function: Callable[[], Any] = function
        self.is_async = inspect.isasyncgenfunction(function)
        self.name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
        if not (self.is_async or inspect.isgeneratorfunction(function)):
            raise Invalid(
                f"{self.name} cannot be a resource: it must be a function with one `yield`, without @contextmanager."
            )
        if inspect.signature(function).parameters:
            raise Invalid(f"{self.name} cannot be a resource: it must have no parameters.")

    def __repr__(self) -> str:
        return f"<Resource {self.name}>"

    def wrong(self, what: str) -> Invalid:
        return Invalid(f"The resource {self.name} {what}: it must yield once.")
