"""Open resources: they are opened at first use, and closed at the end of their process.

A worker and each process for runs have their own `Resources`. A `def` resource is opened on the thread of the run that
uses it first. An `async def` resource lives in an asyncio task of its own, which opens and closes it: cancel scopes and
task groups must be left where they were entered.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context as Variables
from threading import Lock, RLock
from typing import Any, Final, TypeVar, cast

from ostinato.core.errors import Invalid
from ostinato.task.registry import Resource
from ostinato.task.signals import hide_frames_of

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 5.0  # seconds until a process ends without resources that do not close

hide_frames_of(__file__)
log = logging.getLogger("ostinato.resources")


class _OpenResource:
    """A `def` resource that is open."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._resource = resource
        self._generator = resource.function()
        try:
            self.value = next(self._generator)
        except StopIteration:
            raise resource.wrong("has not yielded") from None

    def close(self) -> None:
        try:
            next(self._generator)
        except StopIteration:
            return
        raise self._resource.wrong("has yielded twice")


class _OpenAsyncResource:
    """An `async def` resource, opening or open, and the asyncio task that it lives in."""

    def __init__(self, resource: Resource[Any], forget: Callable[[], object]) -> None:
        self._resource, self._forget = resource, forget
        self.loop = asyncio.get_running_loop()
        self.value: asyncio.Future[Any] = self.loop.create_future()
        self._closing = asyncio.Event()
        self._life = self.loop.create_task(self._live(), context=Variables())  # not the variables of one run

    async def close(self) -> None:
        self._closing.set()
        await self._life

    async def _live(self) -> None:
        generator = self._resource.function()
        try:
            value = await anext(generator)
        except BaseException as error:  # noqa: BLE001  the error of the runs that wait for it
            self._forget()
            ended = isinstance(error, StopAsyncIteration)
            self.value.set_exception(self._resource.wrong("has not yielded") if ended else error)
            self.value.exception()  # read, in case that no run waits any more
            return
        self.value.set_result(value)
        await self._closing.wait()
        try:
            await anext(generator)
        except StopAsyncIteration:
            return
        raise self._resource.wrong("has yielded twice")


class Resources:
    """The open resources of a process, in the order of their opening."""

    def __init__(self) -> None:
        self._open: dict[Resource[Any], _OpenResource | _OpenAsyncResource] = {}
        self._locks: dict[Resource[Any], RLock] = {}
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def on_loop(self) -> bool:
        """True if one of them needs its loop."""
        return any(isinstance(each, _OpenAsyncResource) for each in self._open.values())

    def use(self, resource: Resource[T]) -> T:
        """Return the value of a `def` resource; open it at first use."""
        if resource.is_async:
            raise Invalid(f"The resource {resource.name} is async: write `await ctx.ause(...)` in an `async def` task.")
        found = self._open.get(resource)
        if found is None:
            with self._lock:
                lock = self._locks.setdefault(resource, RLock())
            with lock:
                found = self._open.get(resource)
                if found is None:
                    found = self._open[resource] = _OpenResource(resource)
        return cast(T, found.value)

    async def ause(self, resource: Resource[T]) -> T:
        """Return the value of a resource, and open it at first use; a `def` resource on a thread."""
        if not resource.is_async:
            found = self._open.get(resource)
            return cast(T, found.value) if found is not None else await asyncio.to_thread(self.use, resource)
        found = self._open.get(resource)
        if not isinstance(found, _OpenAsyncResource) or found.loop is not asyncio.get_running_loop():
            found = _OpenAsyncResource(resource, lambda: self._open.pop(resource, None))
            self._open[resource] = found
        return cast(T, await asyncio.shield(found.value))  # a cancelled run cancels nobody else's opening

    def close(self) -> None:
        """Close the `def` resources, the last one first. An error is logged, and the others are closed all the same."""
        while self._open:
            resource, opened = self._open.popitem()
            try:
                if isinstance(opened, _OpenResource):
                    opened.close()
            except Exception:
                log.exception("Resource failed to close: resource=%s", resource.name)

    async def aclose(self, executor: Executor | None = None) -> None:
        """Close all, the last one first, as `close` does; the `def` resources on a thread of the executor."""
        while self._open:
            resource, opened = self._open.popitem()
            try:
                if isinstance(opened, _OpenAsyncResource):
                    await opened.close()
                elif executor is None:
                    opened.close()
                else:
                    await asyncio.get_running_loop().run_in_executor(executor, opened.close)
            except Exception:
                log.exception("Resource failed to close: resource=%s", resource.name)


OF_PLAIN_CALLS: Final = Resources()  # of tasks that are called outside a worker
atexit.register(OF_PLAIN_CALLS.close)
