"""State of crawls: the URLs that an occurrence has found and visited, and its pages, under its fence.

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
from ostinato.features.crawling.pauses import next_turn
from ostinato.features.crawling.urls import UrlVisit, host_of, page_id
from ostinato.store.adapt import from_micros
from ostinato.store.database import Tx
from ostinato.store.store import Store

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
class CrawlStart:
    """The state of a crawl when a run begins."""

    seen: int
    done: int
    last: tuple[datetime, Any] | None  # due time and return value of the last completed crawl


class Crawls:
    """Table of the URLs of crawls under way."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def begin(self, live: Live) -> CrawlStart | None:
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
        return CrawlStart(seen, done, last_result)

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
