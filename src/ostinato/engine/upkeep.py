"""Keeping the database light, so that no claim is held up: SQLite's log short (see store/upkeep.py), PostgreSQL's busy
tables free of dead rows (store/upkeep.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

WANTED: Final = 2000  # pages of SQLite's log, more or less
OFTEN: Final = 0.2  # seconds
RARELY: Final = 5.0


async def keep_light(upkeep: Callable[[], Awaitable[int]]) -> None:
    """For ever: the more pages were written, the sooner again."""
    pause = RARELY
    while True:
        await asyncio.sleep(pause)
        pause = next_pause(pause, await upkeep())


def next_pause(pause: float, pages: int) -> float:
    """Return the next pause from the number of pages written in the last one."""
    return min(max(pause * WANTED / max(pages, 1), OFTEN), RARELY)
