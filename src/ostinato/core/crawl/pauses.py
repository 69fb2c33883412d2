"""Longer pauses between crawls of a site that does not change.

The grid of the schedule stays what it is: a crawl happens at one of its due times, never between, and never more often
than the grid says. After a crawl that found nothing new the distance to the next doubles, up to a cap; the first change
brings it back to the schedule's own.

Turns of several crawls at one host.

Each request takes the next turn there is; the one after it comes when the host has had its pause. So a host
gets the pause of the last request, however many crawls there are, in however many processes.
"""

from datetime import datetime, timedelta
from typing import Final

from ostinato.core.duration import MICROSECOND
from ostinato.core.schedule import Schedule, is_recurring, next_after

MOST_DOUBLINGS = 30


def rests_until(schedule: Schedule, last: datetime, unchanged: int, cap: timedelta) -> datetime | None:
    """The due time to crawl at, after one at `last` and so many in a row that found nothing new; None: the next."""
    if unchanged < 1 or not is_recurring(schedule):
        return None
    following = next_after(schedule, last, last)
    if following is None:
        return None
    gap = following - last
    stretched = min(gap * 2 ** min(unchanged, MOST_DOUBLINGS), max(cap, gap))
    return next_after(schedule, last, last + stretched - MICROSECOND)


LONGEST_PAUSE: Final = timedelta(hours=1)  # nobody waits longer: a clock may have been set back


def next_turn(free_at: datetime | None, now: datetime, pause: timedelta) -> tuple[datetime, datetime]:
    """Return the time of a request, and of the next one; `free_at`: as the last request left it."""
    turn = now if free_at is None else min(max(free_at, now), now + LONGEST_PAUSE)
    return turn, turn + pause
