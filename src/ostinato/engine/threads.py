"""Threads for `def` tasks and for the store: a few, kept, and started when they are needed.

Not a ThreadPoolExecutor: that makes a Future and a lock for each call (18 µs and more; this takes about one),
and waits for its threads when the process ends, which a task that hangs would then prevent.

From any thread to the loop.
"""

import asyncio
from _thread import LockType
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import Context, copy_context
from threading import Lock, Thread
from time import perf_counter
from typing import ParamSpec, TypeVar

from ostinato.core.errors import StoreUnavailable
from ostinato.telemetry.measures import StoreTimes

P = ParamSpec("P")
T = TypeVar("T")

Call = Callable[[], None]
Bell = LockType  # held by a thread that sleeps: released, it wakes


class Threads:
    """Runs calls on at most `size` daemon threads.

    Not one thread is woken for each call, but one when there is something to do, who wakes the next before it begins if
    there is more. So short calls are done by a few threads, one after the other, while calls that wait are all under
    way at once. (With one woken for each, 500 threads fought for the interpreter over what one could do.)
    """

    def __init__(self, size: int, name: str = "ostinato") -> None:
        self._name = name
        self._size = size
        self._lock = Lock()
        self._calls: deque[tuple[Context, Call]] = deque()
        self._idle: list[Bell] = []  # who went to sleep last is woken first
        self._threads = 0
        self._started = 0
        self._waking = False  # one is on its way: it will look for calls, and wake the next

    def submit(self, call: Call) -> None:
        """Run `call` on a thread, in a copy of the caller's contextvars. It must not raise.

        RuntimeError if the system allows no thread, and there is none yet: then the call is not made.
        """
        with self._lock:
            self._calls.append((copy_context(), call))
            start = self._wake_one()
        try:
            if start:
                self._start()
        except RuntimeError:
            with self._lock:
                self._calls.pop()  # without a single thread no other call can wait behind it
            raise

    def resize(self, size: int) -> None:
        """Allow more threads, or let the surplus go as they become free."""
        with self._lock:
            self._size = size
            for bell in self._idle[size:]:
                bell.release()
            del self._idle[size:]

    def stop(self) -> None:
        """Let all threads go once they have done what was submitted; waits for none."""
        self.resize(0)

    def _wake_one(self) -> bool:
        """With the lock: call somebody to what there is to do, unless somebody comes already. True: start a thread."""
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
        bell, called = Lock(), True
        bell.acquire()
        while True:
            with self._lock:
                if called:
                    self._waking = called = False
                if self._threads > self._size and (self._size or not self._calls):
                    self._threads -= 1
                    self._wake_one()  # to what it was called for, perhaps
                    return
                item = self._calls.popleft() if self._calls else None
                start = item is not None and self._wake_one()
                if item is None:
                    self._idle.append(bell)
            if start:
                self._start()
            if item is None:
                called = bell.acquire()
                continue
            context, call = item
            context.run(call)
            del item, context, call  # an idle thread must not keep a run's values alive


class StoreThreads(Executor):
    """Threads for calls into the store. A process that ends does not wait for one that gets no answer."""

    def __init__(self, size: int) -> None:
        self._threads = Threads(size, "ostinato-store")
        self.times: StoreTimes | None = None  # how long calls take, where somebody can read it

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = self.timed(lambda: call(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  it is raised where the call is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            self._threads.submit(run)
        except RuntimeError as error:
            raise StoreUnavailable(f"No thread for a call into the database: {error}.") from error
        return future

    def timed(self, call: Callable[[], T]) -> T:
        """Make a call into the store here, on whatever thread that is."""
        begun = perf_counter()
        try:
            return call()
        finally:
            if self.times is not None:
                self.times.add(perf_counter() - begun)

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        self._threads.stop()


def hopping_to(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Turns a call into one that hops from any thread to the loop, if there still is one."""

    def hop(call: Callable[P, None]) -> Callable[P, None]:
        def from_a_thread(*args: P.args, **kwargs: P.kwargs) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: call(*args, **kwargs))

        return from_a_thread

    return hop
