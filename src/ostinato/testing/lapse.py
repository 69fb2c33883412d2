"""An event loop on a manual clock.

The loop's time is the clock's. The loop never sleeps: when nothing is ready, `at_rest` is done, and the simulation
advances the clock and runs the loop again. So `asyncio.sleep(600)` in a task takes ten minutes of the clock and no
real time. Threads and sockets are waited for in real time.
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

SOCKET_SILENCE: Final = 0.5  # real seconds without data from an open socket before time may pass
FLOAT_ERROR: Final = 0.0005  # microseconds


class TimeLapse(asyncio.SelectorEventLoop):
    """An event loop that runs only while something is ready at this instant."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._resting: list[asyncio.Future[None]] = []
        self._threads = 0
        self.until_timer: timedelta | None = None  # the time to the next timer, as of the last rest
        super().__init__(_RestingSelector(self))

    def time(self) -> float:
        return self._clock.monotonic()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and all other tasks until each of them waits for time to pass."""

        async def until_rest() -> T:
            try:
                return await work
            finally:
                await self.at_rest()

        return _call_outside_loop(self.run_until_complete, until_rest())

    def at_rest(self) -> "asyncio.Future[None]":
        """Return a future that is done when nothing is ready any more."""
        self._resting.append(future := self.create_future())
        return future

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Count the calls in threads, so that a rest waits for them."""
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
        """Resolve the futures of `at_rest`: nothing is ready, and the next timer is `timeout` away."""
        if not self._resting:
            raise RuntimeError("This would wait for ever: time passes only when the simulation advances it.")
        self.until_timer = None if timeout is None else _microseconds(timeout)
        resting, self._resting = self._resting, []
        for future in resting:
            future.set_result(None)


class _RestingSelector(selectors.DefaultSelector):
    """A selector that tells the loop to rest where another selector would sleep."""

    def __init__(self, loop: TimeLapse) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.threads:
            return super().select(SOCKET_SILENCE)
        found = super().select(SOCKET_SILENCE if len(self.get_map()) > 1 else 0)  # one is the loop's own wake-up socket
        if not found:
            self._loop.rest(timeout)
        return found


class InlineExecutor(Executor):
    """An executor that runs each call in the caller's thread: the store needs no threads here."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  raised where the result is awaited
            future.set_exception(error)
        return future


def _microseconds(seconds: float) -> timedelta:
    """Round up, so that the timer is due then; an error of floating point alone adds no microsecond."""
    return timedelta(microseconds=max(math.ceil(seconds * 1e6 - FLOAT_ERROR), 1))


def _call_outside_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call directly, or in a thread if a loop runs already: a loop cannot run inside another loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call(*args, **kwargs)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *args, **kwargs).result()
