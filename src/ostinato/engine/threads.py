"""Threads for `def` tasks and for the store: a few, kept, and started when they are needed.

Not a ThreadPoolExecutor: that makes a Future and a lock for each call (18 µs and more; this takes about one),
and waits for its threads when the process ends, which a task that hangs would then prevent.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import ParamSpec, TypeVar

from ostinato.measures import StoreTimes

P = ParamSpec("P")
T = TypeVar("T")

Call = Callable[[], None]


class Threads:
    """Runs calls on at most `size` daemon threads."""

    def __init__(self, size: int, name: str = "ostinato") -> None:
        self._name = name
        self._size = size
        self._calls: SimpleQueue[tuple[Context, Call] | None] = SimpleQueue()  # None: one thread may go
        self._lock = Lock()
        self._threads = 0
        self._unfinished = 0
        self._started = 0

    def submit(self, call: Call) -> None:
        """Run `call` on a thread, in a copy of the caller's contextvars. It must not raise."""
        with self._lock:
            self._unfinished += 1
            short = self._threads < min(self._unfinished, self._size)
            if short:
                self._threads += 1
                self._started += 1
        self._calls.put((copy_context(), call))
        if short:
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()

    def resize(self, size: int) -> None:
        """Allow more threads, or let the surplus go as they become free."""
        with self._lock:
            self._size = size
            surplus = max(self._threads - size, 0)
            self._threads -= surplus
        for _ in range(surplus):
            self._calls.put(None)

    def stop(self) -> None:
        """Let all threads go once they have done what was submitted; waits for none."""
        self.resize(0)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            context, call = item
            context.run(call)
            del item, context, call  # an idle thread must not keep a run's values alive
            with self._lock:
                self._unfinished -= 1


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
            begun = perf_counter()
            try:
                result = call(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  it is raised where the call is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
            if self.times is not None:
                self.times.add(perf_counter() - begun)

        self._threads.submit(run)
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        self._threads.stop()
