"""SIGTERM and SIGINT, from the first moment on: a stop that is asked for while a process starts is not lost."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Hears the signals that ask for a stop, on the running loop, and passes each on once somebody listens."""

    def __init__(self) -> None:
        self._heard = 0
        self._stop: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> "Signals":
        for number in STOPPING:
            with suppress(
                NotImplementedError, ValueError, RuntimeError
            ):  # not the main thread: others stop us
                self._loop.add_signal_handler(number, self.hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number in STOPPING:
            with suppress(NotImplementedError, ValueError, RuntimeError):
                self._loop.remove_signal_handler(number)

    def pass_to(self, stop: Callable[[], None]) -> None:
        """Call this for each signal, those that came before included."""
        self._stop = stop
        for _ in range(self._heard):
            stop()

    def hear(self) -> None:
        """Act as on a signal."""
        self._heard += 1
        if self._stop is not None:
            self._stop()
