"""A call that the thread which hears a notification makes at once.

From there to the loop, and from the loop to a thread of the store, are two hops of 0.1 to 0.2 ms each, where a claim
takes one. So the loop leaves a call with the listening thread, and fetches its result.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")  # what it brings
R = TypeVar("R")  # what is made of that, on the loop


@dataclass(frozen=True, slots=True)
class _Left(Generic[T, R]):
    call: Callable[[], T]
    then: Callable[[T], R]
    result: asyncio.Future[R]

    def run(self) -> None:
        try:
            brought = self.call()
        except Exception as error:  # noqa: BLE001  it is raised where it is fetched
            self._on_the_loop(self._failed, error)
        else:
            self._on_the_loop(self._done, brought)

    def _on_the_loop(self, call: Callable[..., None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is gone
            self.result.get_loop().call_soon_threadsafe(call, what)

    def _failed(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # known to have been looked at: who stops does not fetch it

    def _done(self, brought: T) -> None:
        if self.result.done():  # who left it is gone
            return
        try:
            made = self.then(brought)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        else:
            self.result.set_result(made)


class Errand(Generic[T, R]):
    """At most one call at a time; left and fetched on the loop, run on any other thread."""

    def __init__(self) -> None:
        self._left: deque[_Left[T, R]] = deque()  # whoever takes it out does it
        self._result: asyncio.Future[R] | None = None

    def leave(self, call: Callable[[], T], then: Callable[[T], R], over: Callable[[], None]) -> None:
        """Have it done when somebody comes by. `then` is what the loop does with what it brings, at once; `over` calls
        who left it when it has come to an end, whatever that is."""
        self._result = asyncio.get_running_loop().create_future()
        self._result.add_done_callback(lambda _: over())
        self._left.append(_Left(call, then, self._result))

    def run(self) -> bool:
        """Do what was left, if anything was."""
        try:
            left = self._left.popleft()
        except IndexError:
            return False
        left.run()
        return True

    async def fetch(self) -> R | None:
        """Return the result; None if the call has not started, and never will."""
        if self._result is None or self._take_back():
            return None
        return await self._result

    def withdraw(self) -> None:
        """Withdraw the call; drop the result if it has started."""
        self._take_back()
        if self._result is not None:
            self._result.cancel()

    def _take_back(self) -> bool:
        """Take the call back; return True if it had not started."""
        with suppress(IndexError):
            self._left.popleft()
            return True
        return False
