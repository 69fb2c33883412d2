"""Whose turn it is to ask a host, when several crawls want something of it.

Each request takes the next turn there is; the one after it comes when the host has had its pause. So a host is left in
peace for as long as whoever asked last would leave it, however many crawls there are, in however many processes.
"""

from datetime import datetime, timedelta
from typing import Final

LONGEST: Final = timedelta(hours=1)  # nobody waits longer: a clock may have been set back


def next_turn(free_at: datetime | None, now: datetime, pause: timedelta) -> tuple[datetime, datetime]:
    """When a request may be sent, and from when on the next one; `free_at`: what the last one left."""
    turn = now if free_at is None else min(max(free_at, now), now + LONGEST)
    return turn, turn + pause
