"""What is to be done as soon as the bell rings, by the thread that hears it.

From there to the loop, and from the loop to a thread of the store, are two hops of 0.1 to 0.2 ms each, where a claim
takes one. So who waits for the bell leaves an errand with it, and fetches what came of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")  # what it brings
R = TypeVar("R")  # what is made of that, on the loop


class Errand(Generic[T, R]):
    """At most one call at a time; left and fetched on the loop, run on any other thread."""

    def __init__(self) -> None:
        self._left: deque[tuple[Callable[[], T], Callable[[T], R], asyncio.Future[R]]] = deque()
        self._result: asyncio.Future[R] | None = None

    def leave(self, call: Callable[[], T], then: Callable[[T], R], over: Callable[[], None]) -> None:
        """Have it done when somebody comes by; `then` is what the loop does with it at once, `over` how who left it is
        called when it has come to an end, whatever that is."""
        self._result = asyncio.get_running_loop().create_future()
        self._result.add_done_callback(_looked_at)
        self._result.add_done_callback(lambda _: over())
        self._left.append((call, then, self._result))

    def run(self) -> bool:
        """Do what was left, if anything was."""
        try:
            call, then, result = self._left.popleft()
        except IndexError:
            return False
        try:
            brought = call()
        except Exception as error:  # noqa: BLE001  it is raised where it is fetched
            _on_the_loop(result, result.set_exception, error)
        else:
            _on_the_loop(result, lambda: _keep(result, then, brought))
        return True

    async def fetch(self) -> R | None:
        """What came of it; None if nobody has begun, and nobody will."""
        result, self._result = self._result, None
        if result is None or self.withdraw():
            return None
        return await result

    def withdraw(self) -> bool:
        """Whether nobody has begun; and nobody will."""
        with suppress(IndexError):
            self._left.popleft()
            return True
        return False


def _on_the_loop(result: "asyncio.Future[Any]", call: Callable[..., None], *args: object) -> None:
    with suppress(RuntimeError):  # the loop is gone
        result.get_loop().call_soon_threadsafe(call, *args)


def _looked_at(result: "asyncio.Future[Any]") -> None:
    """Nobody is told of an error that nobody fetches: who stops does not."""
    if not result.cancelled():
        result.exception()


def _keep(result: "asyncio.Future[R]", then: Callable[[T], R], brought: T) -> None:
    try:
        made = then(brought)
    except Exception as error:  # noqa: BLE001  it is raised where it is fetched
        result.set_exception(error)
    else:
        if not result.done():  # who would fetch it was cancelled
            result.set_result(made)
