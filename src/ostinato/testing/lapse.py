"""An event loop on a manual clock.

Its time is the clock's. It never sleeps: when nothing is ready it says so (`at_rest`), and whoever cranks the clock
lets time pass and runs it again. `asyncio.sleep(600)` inside a task therefore takes ten minutes of the clock's time
and none of ours. What happens outside, on threads and sockets, is waited for in real time.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, ParamSpec, TypeVar

from ostinato.clock import ManualClock

P = ParamSpec("P")
T = TypeVar("T")

SOCKET_SILENCE: Final = 0.5  # real seconds without a word from an open socket, after which time may pass
FLOAT_ERROR: Final = 0.0005  # microseconds


class TimeLapse(asyncio.SelectorEventLoop):
    """A loop that runs only as long as there is something to do at this instant."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._resting: list[asyncio.Future[None]] = []
        self._threads = 0
        self.until_timer: timedelta | None = None  # as of the last rest: how far away its next timer is
        super().__init__(_Outside(self))

    def time(self) -> float:
        return self._clock.monotonic()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this, and let everything else go on, until all of it waits for time to pass."""

        async def until_rest() -> T:
            try:
                return await work
            finally:
                await self.at_rest()

        return _outside_any_loop(self.run_until_complete, until_rest())

    def at_rest(self) -> "asyncio.Future[None]":
        """Done when nothing is ready any more."""
        self._resting.append(future := self.create_future())
        return future

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Counted, so that a rest waits for threads."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self._threads -= 1

    # -- for the selector

    @property
    def threads(self) -> int:
        return self._threads

    def rest(self, timeout: float | None) -> None:
        """Nothing is ready, and the next timer is that far away."""
        if not self._resting:
            raise RuntimeError("This would wait for ever: time passes only when the simulation advances.")
        self.until_timer = None if timeout is None else _microseconds(timeout)
        resting, self._resting = self._resting, []
        for future in resting:
            future.set_result(None)


class _Outside(selectors.DefaultSelector):
    """Looks outside; where another selector would sleep, this one says that the loop is at rest."""

    def __init__(self, loop: TimeLapse) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.threads:
            return super().select(SOCKET_SILENCE)
        found = super().select(SOCKET_SILENCE if len(self.get_map()) > 1 else 0)  # one is the loop's own bell
        if not found:
            self._loop.rest(timeout)
        return found


class AtOnce(Executor):
    """Runs a call where it is submitted: the store needs no threads here."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  it is raised where the answer is awaited
            future.set_exception(error)
        return future


def _microseconds(seconds: float) -> timedelta:
    """Rounded up, so that the timer is due then; what only floating point added is no microsecond."""
    return timedelta(microseconds=max(math.ceil(seconds * 1e6 - FLOAT_ERROR), 1))


def _outside_any_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """A loop cannot run inside another: for a test that is itself a coroutine, on a thread beside it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call(*args, **kwargs)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(call, *args, **kwargs).result()
