"""Turns at Python's lock.

While pages are fetched one thread maps and another stores. Whoever of them has waited for the database, or for the
disk, wants the lock for a moment only; by Python's usual 5 ms it would wait until the other one is done with its page.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

QUICK: Final = 0.0003  # seconds


class Turns:
    """Quick ones, while anybody wants them. The interpreter has one setting for all of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._usual = self._ours = 0.0

    @contextmanager
    def quick(self) -> Iterator[None]:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, QUICK))
                self._ours = sys.getswitchinterval()
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if not self._wanted and sys.getswitchinterval() == self._ours:  # nobody has chosen meanwhile
                    sys.setswitchinterval(self._usual)


TURNS: Final = Turns()
