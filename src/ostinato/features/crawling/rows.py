"""State of crawls: the URLs that an occurrence has found and visited, its pauses, and its pages, under its fence.

One turn of a crawl is one transaction: its pages, the URLs that are done, the URLs that it found, and its counters (the
checkpoint). So a run that continues after a crash visits only URLs that were not saved. A repeated turn changes
nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.core.model import Json, Live
from ostinato.core.schedule import Schedule, is_recurring, next_after
from ostinato.core.times import MICROSECOND
from ostinato.features.crawling.urls import UrlVisit, host_of, page_id
from ostinato.store.database import Tx
from ostinato.store.rows import from_micros
from ostinato.store.store import Store

# -- Pauses between crawls of a site that does not change, and between requests to one host.
#
# A crawl runs only at due times of its schedule. After a crawl that found nothing new the distance to the next crawl
# doubles, up to a cap; the first change brings it back to the schedule's own.
#
# Requests of all crawls to one host take turns. Each request takes the next free time, and sets the one after it to the
# end of its pause. So a host gets this pause, however many crawls and processes there are.

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


# -- State of crawls: the URLs that an occurrence has found and visited, and its pages, under its fence

MOST_DELETED: Final = 5_000  # URLs per transaction
HOSTS_KEPT: Final = timedelta(hours=1)


class FoundUrl(NamedTuple):
    """A URL to visit."""

    url: str
    kind: str  # page, sitemap
    depth: int
    hops: int
    place: int


class Fetched(NamedTuple):
    """A page that answered, as far as it is stored."""

    url: str
    status: int
    error: str
    content_type: str
    title: str
    description: str
    text: str
    language: str
    links: Json
    columns: Json
    hash: str
    rules: str
    etag: str
    last_modified: str
    size: int
    depth: int


class Touched(NamedTuple):
    """A page whose stored content stays: it has not changed, or it did not answer (`error` says why)."""

    url: str
    status: int
    error: str


@dataclass(frozen=True, slots=True)
class CrawlTurn:
    """The work of a crawl since its last turn."""

    fetched: Sequence[Fetched]
    touched: Sequence[Touched]
    done: Sequence[str]
    found: Sequence[FoundUrl]
    checkpoint: Json
    want: int


@dataclass(frozen=True, slots=True)
class _CrawlStart:
    """The state of a crawl when a run begins."""

    seen: int
    done: int
    last: tuple[datetime, Any] | None  # due time and return value of the last completed crawl


class Crawls:
    """Table of the URLs of crawls under way."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def begin(self, live: Live) -> _CrawlStart | None:
        """Return the state of a crawl; None if the fence is stale."""
        with self._database.read() as tx:
            if tx.row("holds", id=live.id, fence=live.fence) is None:
                return None
            seen, done = tx.rows("count_crawl_urls", job=live.job_id, number=live.number)[0]
            last = tx.row("last_crawl", job=live.job_id)
            left = [number for (number,) in tx.rows("left_crawls", job=live.job_id, number=live.number)]
        for number in left:
            self._forget(live.job_id, number)
        last_result = None if last is None or last[1] is None else (from_micros(last[0]), json.loads(last[1]))
        return _CrawlStart(seen, done, last_result)

    def turn(self, live: Live, turn: CrawlTurn, now: datetime) -> tuple[int, list[UrlVisit]] | None:
        """Save a turn; return the number of new URLs, and the URLs to visit next. Return None if the fence is stale."""
        with self._database.write() as tx:
            if tx.run("save_checkpoint", id=live.id, fence=live.fence, checkpoint=turn.checkpoint) != 1:
                return None
            self._save(tx, live.job_id, turn, now)
            new = self._note(tx, live, turn, now)
            if not turn.want:
                return new, []
            rows = tx.rows("waiting_crawl_urls", job=live.job_id, number=live.number, limit=turn.want)
        return new, [UrlVisit(*row) for row in rows]

    def take_turn(self, host: str, now: datetime, pause: timedelta) -> datetime:
        """Reserve the next request to a host; return its time. Later callers wait for the pause."""
        with self._database.write() as tx:
            tx.run("know_crawl_host", host=host, now=now)
            row = tx.row("lock_crawl_host", host=host)
            turn, free_at = next_turn(None if row is None else from_micros(row[0]), now, pause)
            tx.run("take_turn", host=host, free_at=free_at)
        return turn

    def forget_hosts(self, now: datetime) -> None:
        """Delete hosts that received no request for a while."""
        with self._database.write() as tx:
            tx.run("forget_crawl_hosts", before=now - HOSTS_KEPT)

    def end(self, live: Live) -> bool:
        """Delete the URLs of an occurrence that is over. Return False if the fence is stale."""
        with self._database.read() as tx:
            holds = tx.row("holds", id=live.id, fence=live.fence) is not None
        if holds:
            self._forget(live.job_id, live.number)
        return holds

    def _save(self, tx: Tx, job_id: UUID, turn: CrawlTurn, now: datetime) -> None:
        if turn.fetched:
            rows = [(page_id(job_id, p.url), job_id, p.url, host_of(p.url), *p[1:], now) for p in turn.fetched]
            tx.run("save_pages", rows)
        if turn.touched:
            touched = [(page_id(job_id, p.url), p.status, p.error, now) for p in turn.touched]
            tx.run("touch_pages", touched)

    def _note(self, tx: Tx, live: Live, turn: CrawlTurn, now: datetime) -> int:
        job_id, number = live.job_id, live.number
        if turn.done:
            tx.run("visited", [(job_id, number, page_id(job_id, url), now) for url in turn.done])
        if not turn.found:
            return 0
        found = [(job_id, number, page_id(job_id, each.url), *each) for each in turn.found]
        return tx.run("insert_crawl_urls", found)

    def _forget(self, job_id: UUID, number: int) -> None:
        while True:
            with self._database.write() as tx:
                if tx.run("delete_crawl_urls", job=job_id, number=number, limit=MOST_DELETED) < MOST_DELETED:
                    return
