"""SIGTERM and SIGINT, also while a process starts: no request to stop is lost."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

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
