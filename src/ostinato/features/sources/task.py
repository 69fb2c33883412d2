"""The task `fetch`, with short switch intervals of Python's lock.

During a fetch one thread maps and another stores. A thread that has waited for the database or the disk needs the lock
only briefly. With Python's usual interval of 5 ms it would wait until the other thread has finished its page.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ostinato.features.sources.fetch.page import PermanentFailure, TransientFailure
from ostinato.features.sources.fetch.run import SourceRun
from ostinato.task import Context, Signal, Task
from ostinato.task.signals import hide_frames_of

QUICK: Final = 0.0003  # seconds


class Turns:
    """Short switch intervals while at least one fetch needs them. The interpreter has one setting for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._usual = self._ours = 0.0

    @contextmanager
    def quick(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, QUICK))
                self._ours = sys.getswitchinterval()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and sys.getswitchinterval() == self._ours:  # no other code has changed it
                    sys.setswitchinterval(self._usual)


TURNS: Final = Turns()


hide_frames_of(__file__)


async def fetch(ctx: Context, source: dict[str, Any], allow_deletions: bool = False) -> dict[str, Any]:
    """Fetch an HTTP API into a table."""
    try:
        with TURNS.quick():
            return await SourceRun(ctx, source, allow_deletions).go()
    except (TransientFailure, PermanentFailure, Signal) as error:
        raise error.with_traceback(None) from None  # the message is enough


_TASK: Final = Task(fetch, "fetch")
_TASK.hands_back = True  # stored pages stay, and the next run goes on from there
TASKS: Final = {"fetch": _TASK}
