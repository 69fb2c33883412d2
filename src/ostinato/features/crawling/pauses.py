"""Pauses between crawls of a site that does not change, and between requests to one host.

A crawl runs only at due times of its schedule. After a crawl that found nothing new the distance to the next crawl
doubles, up to a cap; the first change brings it back to the schedule's own.

Requests of all crawls to one host take turns. Each request takes the next free time, and sets the one after it to the
end of its pause. So a host gets this pause, however many crawls and processes there are.
"""

from datetime import datetime, timedelta
from typing import Final

from ostinato.core.duration import MICROSECOND
from ostinato.core.schedule import Schedule, is_recurring, next_after

MOST_DOUBLINGS = 30


def rests_until(schedule: Schedule, last: datetime, unchanged: int, cap: timedelta) -> datetime | None:
    """Return the due time of the next crawl, after one at `last` and `unchanged` in a row that found nothing new.

    None: the next due time.
    """
    if unchanged < 1 or not is_recurring(schedule):
        return None
    following = next_after(schedule, last, last)
    if following is None:
        return None
    gap = following - last
    stretched = min(gap * 2 ** min(unchanged, MOST_DOUBLINGS), max(cap, gap))
    return next_after(schedule, last, last + stretched - MICROSECOND)


LONGEST_PAUSE: Final = timedelta(hours=1)  # no request waits longer: a clock may have been set back


def next_turn(free_at: datetime | None, now: datetime, pause: timedelta) -> tuple[datetime, datetime]:
    """Return the time of a request, and of the next one; `free_at`: as the last request left it."""
    turn = now if free_at is None else min(max(free_at, now), now + LONGEST_PAUSE)
    return turn, turn + pause
