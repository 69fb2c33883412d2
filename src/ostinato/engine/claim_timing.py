"""The decision when to claim again.

A claim that finds nothing costs nearly as much as one that brings a job, and delays settles and firing. So the end of a
run causes no claim, unless the last claim had no room for more.

A call that the thread which hears a notification makes at once.

From there to the loop, and from the loop to a thread of the store, are two hops of 0.1 to 0.2 ms each, where a claim
takes one. So the loop leaves a call with the listening thread, and fetches its result.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from ostinato.store.claiming import Claim


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """A claim, and how much it may bring."""

    worker: UUID
    room: int
    make: Callable[[], Claim]


class Lookout:
    """Knows when to look: when somebody called, when a time has come, when there is room again."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """`seconds` is a clock that nobody sets."""
        self._seconds = seconds
        self._called = True
        self._cramped = False
        self._until = 0.0

    def call(self) -> None:
        """There may be something, whoever says so."""
        self._called = True

    def worthwhile(self, room: int) -> bool:
        """Return True if a claim now, with this much room, may find work."""
        return self._called or (self._cramped and room > 0) or self._seconds() >= self._until

    def look(self) -> None:
        """Note that a claim begins: later calls ask for the next one."""
        self._called = False

    def seen(self, pause: float, *, cramped: bool) -> None:
        """Nothing more before a pause, as far as could be seen; if it was cramped, there may be when there is room."""
        self._until, self._cramped = self._seconds() + pause, cramped

    @property
    def pause(self) -> float:
        """Seconds until it is time to look, if nobody calls."""
        return 0.0 if self._called else max(0.0, self._until - self._seconds())


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
