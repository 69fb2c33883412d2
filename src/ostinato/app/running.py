"""Running of a program on an event loop, and the signals that end it."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

CANCEL_SECONDS: Final = 0.5  # for tasks to end after the last cancel
# The number of new objects before a garbage collection. Python's default of 700 is 70 runs, which are not garbage yet:
# examining them over and over took 5 % of the throughput.
YOUNG: Final = 10_000
IMMORTAL: Final = 1000  # Python 3.12 counts about 400 immortal objects as frozen


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run like `asyncio.run`, but do not wait for ever for a task that ignores its cancellation."""
    runner = asyncio.Runner()
    try:
        with _rare_collections():
            runner.run(work)
    finally:
        if runner.run(_cancel_all()):
            runner.close()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage more rarely while Ostinato runs the process; keep a higher threshold, or a disabled collector.

    Imported objects are frozen, which means not examined: they were most of the occasional pauses of 50 ms.
    """
    young, *older = before = gc.get_threshold()
    ours = bool(young) and gc.isenabled() and gc.get_freeze_count() < IMMORTAL
    if young:
        gc.set_threshold(max(young, YOUNG), *older)
    if ours:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
        gc.set_threshold(*before)


async def _cancel_all() -> bool:
    """Cancel all tasks; return whether all have ended. The others end with the process."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for each in left:
        each.cancel()
    unfinished = (await asyncio.wait(left, timeout=CANCEL_SECONDS))[1] if left else set()
    for each in unfinished:
        each._log_destroy_pending = False  # type: ignore[attr-defined]  # the engine has logged it already
    return not unfinished


# -- SIGTERM and SIGINT, also while a process starts: no request to stop is lost

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Receiver of stop signals on the running loop; signals wait until `pass_to` names their receiver."""

    def __init__(self) -> None:
        self._count = 0
        self._stop: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Signals":
        for number in STOPPING:
            with suppress(
                NotImplementedError, ValueError, RuntimeError
            ):  # not the main thread: the program stops us in another way
                self._loop.add_signal_handler(number, self.hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number in STOPPING:
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.remove_signal_handler(number)

    def pass_to(self, stop: Callable[[], None]) -> None:
        """Call `stop` for each signal, earlier ones included."""
        self._stop = stop
        for _ in range(self._count):
            stop()

    def hear(self) -> None:
        """Act as if a signal had come."""
        self._count += 1
        if self._stop is not None:
            self._stop()
