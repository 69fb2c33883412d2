"""Upkeep of the database, so that no claim is delayed: a short log on SQLite, no dead rows in the busy tables of
PostgreSQL (see store/upkeep.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

WANTED: Final = 2000  # pages of SQLite's log, roughly
OFTEN: Final = 0.2  # seconds
RARELY: Final = 5.0


async def keep_light(upkeep: Callable[[], Awaitable[int]]) -> None:
    """Repeat upkeep for ever: the more pages were written, the sooner."""
    pause = RARELY
    while True:
        await asyncio.sleep(pause)
        pause = next_pause(pause, await upkeep())


def next_pause(pause: float, pages: int) -> float:
    """Return the next pause from the number of pages written in the last one."""
    return min(max(pause * WANTED / max(pages, 1), OFTEN), RARELY)
