"""Keeping SQLite's log short, so that no claim has to stop for it (see store/wal.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

WANTED: Final = 2000  # pages of the log, more or less
OFTEN: Final = 0.2  # seconds
RARELY: Final = 5.0


async def keep_short(fold: Callable[[], Awaitable[int]]) -> None:
    """Fold for ever: the more was written, the sooner again."""
    pause = RARELY
    while True:
        await asyncio.sleep(pause)
        pause = next_pause(pause, await fold())


def next_pause(pause: float, pages: int) -> float:
    """How long to wait when so much was written in the last pause."""
    return min(max(pause * WANTED / max(pages, 1), OFTEN), RARELY)
