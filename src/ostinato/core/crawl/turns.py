"""Turns of several crawls at one host.

Each request takes the next turn there is; the one after it comes when the host has had its pause. So a host
gets the pause of the last request, however many crawls there are, in however many processes.
"""

from datetime import datetime, timedelta
from typing import Final

LONGEST: Final = timedelta(hours=1)  # nobody waits longer: a clock may have been set back


def next_turn(free_at: datetime | None, now: datetime, pause: timedelta) -> tuple[datetime, datetime]:
    """Return the time of a request, and of the next one; `free_at`: as the last request left it."""
    turn = now if free_at is None else min(max(free_at, now), now + LONGEST)
    return turn, turn + pause
