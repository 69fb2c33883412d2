"""Waiting for what other threads and processes do without a notification: the one place that looks again and again.

Where there is something to wait on (an event, a queue, a pipe, the end of a process), wait on that.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds: the machine may be very busy, and who is frozen inside a transaction holds others up until PostgreSQL ends
# it, after a minute.
PATIENCE = 300.0
SHORTEST, LONGEST = 0.001, 0.1


def eventually(true: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Wait until something is so, and return what was said then."""
    pauses = looks(true, seconds)
    while not (found := true()):
        time.sleep(next(pauses))
    return found


async def until(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The same, while the loop goes on; what is asked may also be something to await."""
    pauses = looks(true, seconds)
    while True:
        found = true()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        await asyncio.sleep(next(pauses))


def looks(true: Callable[[], Any], seconds: float) -> Iterator[float]:
    """How long to pause before each look: a tenth of what was waited so far.

    What comes soon is seen soon, and what takes its time is not kept from it by being asked all the time.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        yield min(LONGEST, max(SHORTEST, waited / 10))
    raise AssertionError(f"still not so after {seconds:g} s: {true}")
