"""The decision when to claim again, and claims made on the listening thread.

A claim that finds nothing costs nearly as much as one that brings a job, and it delays settles and firing. So the end
of a run causes no claim, unless the last claim had no room for more.

From the listening thread to the loop, and from the loop to a store thread, are two hops of 0.1 to 0.2 ms each; a claim
takes one. So the loop offers its next claim to the listening thread and fetches the result.
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
    """A claim and the maximum number of executions it may bring."""

    worker: UUID
    room: int
    make: Callable[[], Claim]


class ClaimTiming:
    """The times to claim: after a notification, at a due time, or when there is room again."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """`seconds` is a monotonic clock."""
        self._seconds = seconds
        self._notified = True
        self._cramped = False
        self._until = 0.0

    def notify(self) -> None:
        """Note that there may be work to claim."""
        self._notified = True

    def is_due(self, room: int) -> bool:
        """Return True if a claim now, with this much room, may find work."""
        return self._notified or (self._cramped and room > 0) or self._seconds() >= self._until

    def begin(self) -> None:
        """Note that a claim begins: later notifications ask for the next one."""
        self._notified = False

    def finish(self, pause: float, *, cramped: bool) -> None:
        """Note that a claim expects no more work before `pause` has passed. If it was cramped, free room may bring
        more."""
        self._until, self._cramped = self._seconds() + pause, cramped

    @property
    def pause(self) -> float:
        """Seconds until the next claim, without a notification."""
        return 0.0 if self._notified else max(0.0, self._until - self._seconds())


T = TypeVar("T")  # the result of the call
R = TypeVar("R")  # what `then` makes of it on the loop


@dataclass(frozen=True, slots=True)
class _Offered(Generic[T, R]):
    call: Callable[[], T]
    then: Callable[[T], R]
    result: asyncio.Future[R]

    def run(self) -> None:
        try:
            result = self.call()
        except Exception as error:  # noqa: BLE001  raised again where the result is fetched
            self._on_the_loop(self._failed, error)
        else:
            self._on_the_loop(self._done, result)

    def _on_the_loop(self, call: Callable[..., None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self.result.get_loop().call_soon_threadsafe(call, what)

    def _failed(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # mark it as retrieved: a stopping engine does not fetch it

    def _done(self, result: T) -> None:
        if self.result.done():  # the call was withdrawn
            return
        try:
            made = self.then(result)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        else:
            self.result.set_result(made)


class HandOff(Generic[T, R]):
    """One call at a time: offered and fetched on the loop, run on another thread."""

    def __init__(self) -> None:
        self._offered: deque[_Offered[T, R]] = deque()  # the thread that pops the call runs it
        self._result: asyncio.Future[R] | None = None

    def offer(self, call: Callable[[], T], then: Callable[[T], R], over: Callable[[], None]) -> None:
        """Offer a call to the listening thread. The loop passes its result to `then`; `over` is called when the call
        has ended in any way."""
        self._result = asyncio.get_running_loop().create_future()
        self._result.add_done_callback(lambda _: over())
        self._offered.append(_Offered(call, then, self._result))

    def run(self) -> bool:
        """Run the offered call, if there is one."""
        try:
            offered = self._offered.popleft()
        except IndexError:
            return False
        offered.run()
        return True

    async def fetch(self) -> R | None:
        """Return the result; None if the call was taken back before it started."""
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
            self._offered.popleft()
            return True
        return False
