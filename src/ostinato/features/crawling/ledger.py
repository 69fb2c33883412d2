"""The URLs of a crawl: its scope, those to visit, and those visited.

The worker stores the ledger in the database. This process has only some URLs to visit next, and the pages since the
last turn. So the memory of a crawl does not grow with the site, and after a crash another process goes on from the
last turn.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ostinato.core.errors import OstinatoError
from ostinato.features.crawling.args import CrawlArgs
from ostinato.features.crawling.urls import UrlVisit, canonical, host_of, path_of
from ostinato.task import Context

# -- The scope of a crawl: the URLs it visits.
#
# Its patterns are those of robots.txt: a beginning, with `*` for anything and `$` for the end. `/blog/` is all that
# begins so, `/*.pdf$` all that ends so. One that begins with http is compared with the whole URL, others with path and
# query. They are no regular expressions: one from a user could run for ever.

MOST_HOPS = 5  # redirects, one after the other


@dataclass(frozen=True, slots=True)
class Scope:
    """The hosts to visit, and the patterns of their URLs."""

    hosts: frozenset[str]
    start: frozenset[str]
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_depth: int = 10

    @classmethod
    def of(cls, args: CrawlArgs, adopted: Iterable[str] = ()) -> "Scope":
        """Make the scope of a crawl; `adopted`: hosts that the start URLs redirected to."""
        start = frozenset(url for url in map(canonical, (args.url, *args.start_urls)) if url)
        hosts = frozenset({*map(host_of, start), *args.hosts, *adopted})
        return cls(hosts, start, args.allow, args.deny, args.max_depth)

    def with_host(self, host: str) -> "Scope":
        return Scope(self.hosts | {host}, self.start, self.allow, self.deny, self.max_depth)

    def wants(self, url: str, depth: int) -> bool:
        """Return True if a canonical URL is to be visited. The start URLs always are."""
        if url in self.start:
            return True
        if depth > self.max_depth or host_of(url) not in self.hosts:
            return False
        path = path_of(url)
        if any(fits(pattern, url, path) for pattern in self.deny):
            return False
        return not self.allow or any(fits(pattern, url, path) for pattern in self.allow)


def fits(pattern: str, url: str, path: str) -> bool:
    """Return True if a pattern matches a URL (or the part of it after the host)."""
    return _begins(pattern, url if pattern.startswith(("http:", "https:")) else path)


def _begins(pattern: str, text: str) -> bool:
    anchored = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not text.startswith(first):
        return False
    if anchored and not others:
        return text == first
    at = len(first)
    for part in others[:-1] if anchored else others:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return not anchored or (text.endswith(others[-1]) and len(text) - len(others[-1]) >= at)


# -- The URLs of a crawl: to visit, and visited

URLS_PER_TURN: Final = 50  # URLs taken with one turn
MOST_FOUND: Final = 5_000  # URLs stored with one turn
TURN_EVERY: Final = 1.0  # seconds of work that a crash can undo
TURN_BYTES: Final = 1_000_000
COUNTED: Final = (
    "new", "changed", "unchanged", "gone", "failed", "refused", "redirects", "duplicates", "noindex", "forbidden",
    "left_out", "sitemaps", "requests", "bytes",
)  # fmt: skip
LEAST_SEEN: Final = 10_000
SEEN_PER_PAGE: Final = 20  # URLs stored for each page within max_pages


class Ledger:
    """The ledger of one run."""

    def __init__(self, ctx: Context, scope: Scope, max_pages: int, max_bytes: float, hand: int) -> None:
        """`hand`: maximum number of pages visited at once."""
        self._ctx, self.scope, self._hand = ctx, scope, hand
        self._max_pages, self._max_bytes = max_pages, max_bytes
        self._most_seen = max(LEAST_SEEN, SEEN_PER_PAGE * max_pages)
        self._queue = deque[UrlVisit]()
        self._under_way = dict[str, UrlVisit]()
        self._fetched: list[dict[str, Any]] = []
        self._touched: list[tuple[str, int, str]] = []
        self._done: list[str] = []
        self._found = dict[str, tuple[str, str, int, int, int]]()
        self._bytes, self._turned_at = 0, time.monotonic()
        self._place = self._seen = 0
        self._changed = asyncio.Condition()
        self._turning = asyncio.Lock()
        self._line = threading.Lock()
        self.counters = Counter[str]()
        self.last: tuple[str, dict[str, Any]] | None = None  # due time and result of the previous crawl
        self.trouble: BaseException | None = None  # the error that ends the run

    # -- turns with the worker

    async def begin(self) -> None:
        """Read the state of the crawl; an earlier attempt may have begun it."""
        answer = await self.ask("crawling.begin")
        last = answer["last"]
        self.last = last if last is not None and isinstance(last[1], dict) else None
        self._seen = answer["seen"]
        kept = self._ctx.checkpoint or {}
        self.counters.update(kept.get("counters", {}))
        self._place = kept.get("place", self._seen)
        for host in kept.get("hosts", []):
            self.scope = self.scope.with_host(host)

    @property
    def fresh(self) -> bool:
        """True if nothing has been found yet."""
        return self._seen == 0

    async def turn(self) -> None:
        """Store the work since the last turn, and take more URLs if there is room."""
        async with self._turning:
            answer = await self.ask("crawling.turn", self._so_far())
            self._seen += answer["new"]
            held = {*self._under_way, *self._done, *(visit.url for visit in self._queue)}
            coming = (UrlVisit(*each) for each in answer["waiting"])
            self._queue.extend(visit for visit in coming if visit.url not in held)
        async with self._changed:
            self._changed.notify_all()

    async def keep_turning(self) -> None:
        """Take a turn regularly during the crawl, so that a crash loses little."""
        try:
            while True:
                await asyncio.sleep(TURN_EVERY / 4)
                late = time.monotonic() - self._turned_at >= TURN_EVERY
                if self._bytes >= TURN_BYTES or len(self._found) >= MOST_FOUND or (late and self._has_news):
                    await self.turn()
        except OstinatoError as error:
            await self.fail(error)

    async def end(self) -> None:
        """Store the rest and end the crawl."""
        while self._has_news:
            await self.turn()
        await self.ask("crawling.end")

    async def save(self) -> None:
        """Store the work since the last turn, before the run stops."""
        if self._has_news:
            await self.turn()

    @property
    def _has_news(self) -> bool:
        return bool(self._done or self._found)

    async def ask(self, name: str, request: Any = None) -> Any:
        """Send one call at a time to the worker, even if an earlier caller was cancelled meanwhile."""

        def asked() -> Any:
            with self._line:
                return self._ctx.call(name, request)

        return await asyncio.to_thread(asked)

    def _so_far(self) -> dict[str, Any]:
        """Return the work since the last turn, and reset it."""
        found = [self._found.pop(url) for url in list(self._found)[:MOST_FOUND]]
        room = self._hand + URLS_PER_TURN
        turn = {
            "fetched": self._fetched,
            "touched": self._touched,
            "done": self._done,
            "found": found,
            "counters": {
                "counters": dict(self.counters),
                "place": self._place,
                "hosts": sorted(self.scope.hosts),
            },
            "want": room + len(self._under_way) + len(self._queue) if len(self._queue) < self._hand else 0,
        }
        self._fetched, self._touched, self._done = [], [], []
        self._bytes, self._turned_at = 0, time.monotonic()
        self._ctx.count_items(self.counters["crawled"], self.counters["indexed"])
        expected = min(self._seen, self._max_pages)
        self._ctx.progress(self.counters["crawled"], max(expected, self.counters["crawled"]), self._message)
        self._ctx.count(**{name: self.counters[name] for name in COUNTED if self.counters[name]})
        return turn

    @property
    def _message(self) -> str:
        counters = self.counters
        message = f"{counters['crawled']:,} pages, {counters['new'] + counters['changed']:,} new or changed"
        return message + (f", {counters['failed']:,} failed" if counters["failed"] else "")

    # -- the next URL

    async def next(self) -> UrlVisit | None:
        """Wait for and return the next URL to visit; None at the end of the crawl."""
        while not self._over:
            if self._queue and len(self._under_way) < self._room:
                visit = self._queue.popleft()
                self._under_way[visit.url] = visit
                return visit
            if not self._queue:
                await self.turn()
                if not self._queue and not self._under_way and not self._has_news:
                    return None
                if self._queue or not self._under_way or self._over:
                    continue  # the state may have changed during the turn
            async with self._changed:
                await self._changed.wait()
        return None

    @property
    def _room(self) -> int:
        """Return the number of visits that may be under way, within the limit of pages."""
        return min(self._hand, self._max_pages - self.counters["crawled"])

    @property
    def _over(self) -> bool:
        return self.trouble is not None or self.limit is not None

    @property
    def limit(self) -> str | None:
        """The limit that ended the crawl, or None."""
        if self.counters["crawled"] >= self._max_pages:
            return "max_pages"
        return "max_mb" if self.counters["bytes"] >= self._max_bytes else None

    # -- finished URLs

    def find(self, urls: Iterable[str], depth: int, kind: str = "page", hops: int = 0) -> None:
        """Add URLs to visit, if they are in scope and not too many."""
        for url in urls:
            if hops > MOST_HOPS or (kind == "page" and not self.scope.wants(url, depth)):
                self.counters["out_of_scope"] += 1
            elif self._seen + len(self._found) >= self._most_seen:
                self.counters["left_out"] += 1
            elif url not in self._found:
                self._place += 1
                self._found[url] = (url, kind, depth, hops, self._place)

    def adopt(self, host: str) -> None:
        """Add a host to the scope: a start URL redirects to it."""
        self.scope = self.scope.with_host(host)

    async def keep(self, visit: UrlVisit, page: dict[str, Any]) -> None:
        """Store a visited page."""
        self._fetched.append(page)
        self._bytes += len(page["text"]) + len(page["links"])
        await self.done(visit)

    async def touch(self, visit: UrlVisit, status: int, error: str = "") -> None:
        """Note a visit that leaves the stored page as it is."""
        self._touched.append((visit.url, status, error))
        await self.done(visit)

    async def done(self, visit: UrlVisit) -> None:
        """Note that a URL is finished."""
        self._under_way.pop(visit.url, None)
        self._done.append(visit.url)
        async with self._changed:
            self._changed.notify_all()

    async def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        self.trouble = self.trouble or error
        async with self._changed:
            self._changed.notify_all()
