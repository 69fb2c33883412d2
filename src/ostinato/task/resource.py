"""A resource: what tasks share, such as a pool of connections. It is opened at first use, and closed at the end."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar

from ostinato.core.errors import Invalid

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
