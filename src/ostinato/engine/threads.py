"""Threads for `def` tasks and for the store, and asyncio tasks that several runs share.

A ThreadPoolExecutor makes a Future and a lock for each call (18 µs and more; this takes about one). It also waits for
its threads when the process ends, so one hanging task would prevent the end.
"""

import asyncio
import time
import types
from _thread import LockType
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import Context, copy_context
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from ostinato.core.errors import StoreUnavailable
from ostinato.telemetry.measures import StoreTimes

P = ParamSpec("P")
T = TypeVar("T")

Call = Callable[[], None]
SleepLock = LockType  # held by a sleeping thread; its release wakes the thread


class Threads:
    """Threads, at most `size` daemons, that run calls.

    A call does not wake a thread each. One thread is woken when there is a call; before it begins, it wakes the next if
    there are more. So a few threads do the short calls one after the other, while calls that wait all run at once.
    (When each call woke one, 500 threads competed for the interpreter lock over the work of one.)
    """

    def __init__(self, size: int, name: str = "ostinato") -> None:
        self._name = name
        self._size = size
        self._lock = Lock()
        self._calls: deque[tuple[Context, Call]] = deque()
        self._idle: list[SleepLock] = []  # the last to fall asleep is woken first
        self._threads = 0
        self._started = 0
        self._waking = False  # one thread is on its way: it will look for calls and wake the next

    def submit(self, call: Call) -> None:
        """Run `call` on a thread, in a copy of the caller's contextvars. It must not raise.

        Raise RuntimeError if the system allows no thread and none exists yet: the call is then not made.
        """
        with self._lock:
            self._calls.append((copy_context(), call))
            start = self._wake_one()
        try:
            if start:
                self._start()
        except RuntimeError:
            with self._lock:
                self._calls.pop()  # without a thread, no earlier call can wait
            raise

    def resize(self, size: int) -> None:
        """Allow more threads, or end surplus ones as they become free."""
        with self._lock:
            self._size = size
            for sleep in self._idle[size:]:
                sleep.release()
            del self._idle[size:]

    def stop(self) -> None:
        """End each thread after the submitted calls; wait for none."""
        self.resize(0)

    def _wake_one(self) -> bool:
        """Wake a thread for the next call, unless one is on its way; return True to start a new one. The caller holds
        the lock."""
        if self._waking or not self._calls:
            return False
        if self._idle:
            self._waking = True
            self._idle.pop().release()
            return False
        if self._threads >= self._size:
            return False
        self._waking = True
        self._threads += 1
        self._started += 1
        return True

    def _start(self) -> None:
        try:
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        except RuntimeError:  # the system allows no more
            with self._lock:
                self._waking = False
                self._threads -= 1
                if not self._threads:
                    raise

    def _work(self) -> None:
        sleep, called = Lock(), True
        sleep.acquire()
        while True:
            with self._lock:
                if called:
                    self._waking = called = False
                if self._threads > self._size and (self._size or not self._calls):
                    self._threads -= 1
                    self._wake_one()  # perhaps to take the call that it was woken for
                    return
                item = self._calls.popleft() if self._calls else None
                start = item is not None and self._wake_one()
                if item is None:
                    self._idle.append(sleep)
            if start:
                self._start()
            if item is None:
                called = sleep.acquire()
                continue
            context, call = item
            context.run(call)
            del item, context, call  # an idle thread must not keep the values of a run alive


class StoreThreads(Executor):
    """Threads for calls into the store. A process that ends does not wait for a call without an answer."""

    def __init__(self, size: int) -> None:
        self._threads = Threads(size, "ostinato-store")
        self.times: StoreTimes | None = None  # durations of calls, when they are measured

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = self.timed(lambda: call(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  raised where the call is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            self._threads.submit(run)
        except RuntimeError as error:
            raise StoreUnavailable(f"No thread for a call into the database: {error}.") from error
        return future

    def timed(self, call: Callable[[], T]) -> T:
        """Make a call into the store on this thread, and measure it."""
        begun = perf_counter()
        try:
            return call()
        finally:
            if self.times is not None:
                self.times.add(perf_counter() - begun)

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        self._threads.stop()


AT_ONCE: Final = 8
_few: Final = StoreThreads(AT_ONCE)


async def few_threads(call: Callable[[], T]) -> T:
    """Make a call on one of a few threads of this process.

    A slow database holds neither the event loop nor the threads of the program around it; calls beyond these few wait
    in order. If the awaiting task is cancelled, a call that still waits for a thread is dropped. A call that has begun
    is finished, and its result is lost.
    """
    return await asyncio.get_running_loop().run_in_executor(_few, call)


def hopping_to(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a wrapper that schedules calls on the loop from any thread, while the loop is open."""

    def hop(call: Callable[P, None]) -> Callable[P, None]:
        def from_a_thread(*args: P.args, **kwargs: P.kwargs) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: call(*args, **kwargs))

        return from_a_thread

    return hop


# -- Loop tasks: asyncio tasks that several runs share, one after the other, as long as none of them waits.
#
# An asyncio task per run costs as much as the rest of its start (3 µs of 6). So a loop task takes the next run if the
# last one ended in its first step. A run that waits keeps its loop task for itself; the loop, free again, opens another
# for the other runs. A run that waited or was cancelled is the last of its loop task, and each run has its own
# contextvars, so no run affects the next.
#
# `charged` measures the time that one coroutine takes of a shared loop.


class _LoopRun(Protocol):
    """A run that a loop task awaits."""

    async def go(self, loop_task: "asyncio.Task[Any]") -> bool:
        """Run to the end in any case; return True if it never waited."""
        ...


class LoopTasks:
    """The loop tasks of one loop: they start runs in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting = deque[_LoopRun]()
        self._opening = False

    def start(self, run: _LoopRun) -> None:
        """Start a run soon, as `asyncio.create_task` would."""
        self._waiting.append(run)
        self._open_soon()

    def _open_soon(self) -> None:
        if not self._opening:
            self._opening = True
            self._loop.call_soon(self._open)

    def _open(self) -> None:
        self._opening = False
        if self._waiting:
            self._loop.create_task(self._loop_task())

    async def _loop_task(self) -> None:
        me = asyncio.current_task(self._loop)
        assert me is not None
        while self._waiting:
            run = self._waiting.popleft()
            if self._waiting:
                self._open_soon()  # for the case that this run waits; otherwise no run is left by then
            if not await run.go(me) or me.cancelling():
                return


CLOCK = time.perf_counter  # the CPU time of the thread is more exact, but ten times as slow to read


class _CpuAccount(Protocol):
    """The account that is charged: seconds of CPU, and the number of steps."""

    cpu: float
    steps: int


Within = Callable[[Callable[[Any], Any], Any], Any]  # contextvars.Context.run


@types.coroutine
def charged(coroutine: Any, account: _CpuAccount, within: Within) -> Generator[Any, Any, Any]:
    """Await a coroutine in its own contextvars (`within`) and charge each of its steps, not the time between them.

    This is `yield from` written out (PEP 380), with a clock around each step.
    """
    step, sent = coroutine.send, None
    while True:
        began = CLOCK()
        try:
            awaited = within(step, sent)
        except StopIteration as end:
            return end.value
        finally:
            account.cpu += CLOCK() - began
            account.steps += 1
        try:
            step, sent = coroutine.send, (yield awaited)
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001  passed on to the coroutine
            step, sent = coroutine.throw, error
