"""The spider: it requests the URLs of the ledger, reads the answers, and adds the results to the ledger."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

from scrapy import Request, Spider
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from twisted.python.failure import Failure

from ostinato.core import addresses
from ostinato.core.errors import OstinatoError, TooMuch, Unreachable
from ostinato.core.payload import MIB
from ostinato.features.crawling import extract
from ostinato.features.crawling.args import CrawlArgs
from ostinato.features.crawling.ledger import Ledger
from ostinato.features.crawling.robots import PoliteGate, Robots, Rules
from ostinato.features.crawling.urls import UrlVisit, canonical, host_of
from ostinato.outgoing import Bounds, Outgoing
from ostinato.task import Defer

TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
GONE: Final = frozenset({404, 410})
TRIES: Final = 3
PAUSE: Final = 1.0  # seconds before the second request of a page; doubled before the third
LONGEST_PAUSE: Final = timedelta(minutes=1)  # for a longer wait the run is deferred
ACCEPT: Final = "text/html, application/xhtml+xml, text/plain;q=0.8, */*;q=0.1"
Outcome = list[Request] | None  # of a visit: the request to repeat


class CrawlFailed(Exception):
    """The site cannot be crawled now."""


class PageSpider(Spider):
    """Spider that visits the URLs of the ledger."""

    name = "crawl"

    def __init__(
        self,
        args: CrawlArgs,
        ledger: Ledger,
        robots: Robots,
        outgoing: Outgoing,
        gate: PoliteGate,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._gate = gate
        self.args, self.ledger, self.robots, self.outgoing = args, ledger, robots, outgoing
        self.forbidden: str | None = None  # a start URL that robots.txt forbids
        self._rules = extract.rules_hash(args.extract)
        self._wait_until = dict[str, float]()  # the times until which hosts asked to wait

    async def start(self) -> AsyncIterator[Any]:
        """Request URLs until the ledger has no more."""
        try:
            while (visit := await self.ledger.next()) is not None:
                rules = await self.robots.of(visit.url)
                if self._may(visit, rules):
                    yield self._request(visit, rules)
                else:
                    await self._forbidden(visit, rules)
        except OstinatoError as error:
            await self.ledger.fail(error)

    # -- requests

    def _may(self, visit: UrlVisit, rules: Rules) -> bool:
        return visit.kind == "sitemap" or rules.allows(visit.url, self.args.user_agent)

    async def _forbidden(self, visit: UrlVisit, rules: Rules) -> None:
        self.ledger.counters["forbidden"] += 1
        if _is_start(visit) and not self.ledger.counters["crawled"]:
            if rules.trouble:
                await self.ledger.fail(CrawlFailed(rules.trouble))
                return
            self.forbidden = visit.url
        await self.ledger.done(visit)

    def _request(self, visit: UrlVisit, rules: Rules) -> Request:
        seconds = self.args.page_timeout.total_seconds()
        most = round((self.args.max_page_mb if visit.kind == "page" else 50) * MIB)
        bounds = Bounds(seconds, seconds, seconds, most, most, redirects=-1)
        host = host_of(visit.url)
        self._pace(host, rules.delay(self.args.user_agent))
        meta = {"visit": visit, "bounds": bounds, "kind": visit.kind, "download_slot": host, "tries": 1}
        return Request(
            visit.url, callback=self.arrived, errback=self.failed, headers=self._headers(visit), meta=meta,
            dont_filter=True,
        )  # fmt: skip

    def _headers(self, visit: UrlVisit) -> dict[str, str]:
        headers = {"User-Agent": self.args.user_agent, "Accept": ACCEPT}
        if visit.hash and visit.rules == self._rules:
            if visit.etag:
                headers["If-None-Match"] = visit.etag
            if visit.last_modified:
                headers["If-Modified-Since"] = visit.last_modified
        return headers

    def _pace(self, host: str, asked: float) -> None:
        """Set the delay of a host: the longer one of robots.txt and the job."""
        known = self.crawler.engine.downloader.per_slot_settings
        if host not in known:
            delay = max(self.args.delay.total_seconds(), asked)
            known[host] = {"concurrency": self.args.concurrency, "delay": delay}
            self._gate.slow_down(addresses.host_of(f"//{host}"), delay)

    async def calm(self, url: str) -> None:
        """Wait if the host has asked for it."""
        wait = self._wait_until.get(host_of(url), 0.0) - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)

    # -- answers

    async def failed(self, failure: Failure) -> Outcome:
        """Handle a request without a usable answer."""
        error, request = failure.value or CrawlFailed("?"), failure.request  # type: ignore[attr-defined]
        try:
            return await self._after_error(request, error)
        except Exception as second:  # noqa: BLE001  Scrapy would only log the error
            await self.ledger.fail(second)
            return None

    async def _after_error(self, request: Request, error: BaseException) -> Outcome:
        if not isinstance(error, Unreachable):  # includes BudgetSpent, which defers the run
            await self.ledger.fail(error)
            return None
        self.ledger.counters["requests"] += 1
        visit: UrlVisit = request.meta["visit"]
        if error.transient and not isinstance(error, TooMuch):
            return await self._again(request, visit, 0, str(error))
        await self._unanswered(visit, 0, str(error))
        return None

    async def arrived(self, response: Response) -> Outcome:
        """Handle an answer."""
        try:
            return await self._on_answer(response, response.meta["visit"])
        except Exception as error:  # noqa: BLE001  Scrapy would only log the error
            await self.ledger.fail(error)
            return None

    async def _on_answer(self, response: Response, visit: UrlVisit) -> Outcome:
        counters, status = self.ledger.counters, response.status
        counters["requests"] += 1
        counters["bytes"] += response.meta["received"]
        if status in TRANSIENT:
            assert response.request is not None
            return await self._again(response.request, visit, status, f"It answered {status}.")
        if status == 304 and visit.hash:
            await self._unchanged(visit)
        elif 300 <= status < 400:
            await self._redirected(response, visit)
        elif status >= 400:
            await self._refused(visit, status)
        elif visit.kind == "sitemap":
            await self._sitemap(response, visit)
        else:
            await self._page(response, visit)
        return None

    async def _again(self, request: Request, visit: UrlVisit, status: int, why: str) -> Outcome:
        asked: timedelta | None = request.meta.get("wait")
        if asked is not None and asked > LONGEST_PAUSE:
            await self.ledger.fail(Defer(asked))
            return None
        tries = request.meta["tries"]
        if tries >= TRIES or visit.kind == "sitemap":
            await self._unanswered(visit, status, why)
            return None
        if asked is not None:
            self._wait_until[host_of(visit.url)] = time.monotonic() + asked.total_seconds()
        await asyncio.sleep(max(PAUSE * 2 ** (tries - 1), asked.total_seconds() if asked else 0))
        return [request.replace(meta={**request.meta, "tries": tries + 1})]

    async def _unanswered(self, visit: UrlVisit, status: int, why: str) -> None:
        if visit.kind == "sitemap":
            await self.ledger.done(visit)
            return
        self.ledger.counters["failed"] += 1
        if await self._cannot_begin(visit, why):
            return
        if visit.hash:
            await self.ledger.touch(visit, status, why)
        else:
            await self.ledger.keep(visit, self._empty(visit, status, why))

    async def _refused(self, visit: UrlVisit, status: int) -> None:
        if visit.kind == "sitemap":
            await self.ledger.done(visit)
            return
        self.ledger.counters["refused"] += 1
        if await self._cannot_begin(visit, f"It answered {status}."):
            return
        if status in GONE or not visit.hash:
            self.ledger.counters["gone"] += bool(visit.hash)
            await self.ledger.keep(visit, self._empty(visit, status, f"It answered {status}."))
        else:
            await self.ledger.touch(visit, status, f"It answered {status}.")

    async def _cannot_begin(self, visit: UrlVisit, why: str) -> bool:
        """Return True if the crawl cannot begin: then nothing is saved, and a retry begins anew."""
        if not _is_start(visit) or self.ledger.counters["crawled"]:
            return False
        await self.ledger.fail(CrawlFailed(f"{visit.url} cannot be crawled: {why}"))
        return True

    # -- pages

    async def _unchanged(self, visit: UrlVisit) -> None:
        self.ledger.counters.update(crawled=1, unchanged=1)
        self.ledger.find(filter(extract.is_page, json.loads(visit.links or "[]")), visit.depth + 1)
        await self.ledger.touch(visit, 304)

    async def _redirected(self, response: Response, visit: UrlVisit) -> None:
        self.ledger.counters["redirects"] += 1
        location = (response.headers.get("Location") or b"").decode("utf-8", "replace")
        url = canonical(location, visit.url) if location else None
        if url is not None and url != visit.url:
            if _is_start(visit):
                self.ledger.adopt(host_of(url))
            self.ledger.find([url], visit.depth, visit.kind, visit.hops + 1)
        await self.ledger.done(visit)

    async def _sitemap(self, response: Response, visit: UrlVisit) -> None:
        self.ledger.counters["sitemaps"] += 1
        try:
            for kind, url in extract.read_sitemap(response.body, visit.url):
                if kind == "page":
                    self.ledger.find([url], 1)
                elif visit.hops == 0:  # only one level of nested sitemaps
                    self.ledger.find([url], 0, "sitemap", 1)
        except TooMuch as error:
            self.logger.warning("Sitemap read only in part: %s: %s", visit.url, error)
        await self.ledger.done(visit)

    async def _page(self, response: Response, visit: UrlVisit) -> None:
        counters = self.ledger.counters
        try:
            page = extract.read(response, self.args.extract)
        except extract.Unreadable as error:
            await self._unanswered(visit, response.status, str(error))
            return
        self.ledger.find(page.follow, visit.depth + 1)
        own = page.canonical
        if own and own != visit.url and not visit.hops and self.ledger.scope.wants(own, visit.depth):
            counters["duplicates"] += 1
            self.ledger.find([own], visit.depth, hops=1)
            await self.ledger.done(visit)
        elif not page.indexed:
            counters["noindex"] += 1
            await self.ledger.keep(visit, self._empty(visit, response.status, "The page forbids indexing (noindex)."))
        else:
            news = "new" if not visit.hash else "unchanged" if visit.hash == page.hash else "changed"
            counters.update({"crawled": 1, news: 1, "indexed": int(news != "unchanged" and bool(page.text))})
            await self.ledger.keep(visit, self._row(response, visit, page))

    def _row(self, response: Response, visit: UrlVisit, page: extract.Read) -> dict[str, Any]:
        return self._empty(visit, response.status, "") | {
            "content_type": _header(response, "Content-Type").partition(";")[0].strip().lower()[:200],
            "title": page.title,
            "description": page.description,
            "text": page.text,
            "language": page.language,
            "links": json.dumps(page.links),
            "columns": json.dumps(page.columns),
            "hash": page.hash,
            "etag": _header(response, "ETag")[:500],
            "last_modified": _header(response, "Last-Modified")[:100],
            "size": len(response.body),
        }

    def _empty(self, visit: UrlVisit, status: int, error: str) -> dict[str, Any]:
        """Return the row of a visited page without content."""
        return {
            "url": visit.url, "status": status, "error": error[:1000], "content_type": "", "title": "",
            "description": "", "text": "", "language": "", "links": "[]", "columns": "{}", "hash": "",
            "rules": self._rules, "etag": "", "last_modified": "", "size": 0, "depth": visit.depth,
        }  # fmt: skip


def _header(response: Response, name: str) -> str:
    return (response.headers.get(name) or b"").decode("latin-1").replace("\0", "")


def _is_start(visit: UrlVisit) -> bool:
    """Return True if a visit is a start of the crawl, or a redirect of one."""
    return visit.depth == 0 and visit.kind == "page"


# -- Downloads of Scrapy's requests by the HTTP client `outgoing`.
#
# So addresses are checked, sizes are limited before and after decompression, a proxy from the environment is ignored,
# and
# each request passes the budgets of providers. A redirect is an answer: the crawl checks its target like any other URL.

READ: Final = (
    "text/",
    "application/xhtml",
    "application/xml",
    "application/json",
    "application/rss",
    "application/atom",
)
PACKED: Final = ("application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream")


class Downloads(BaseDownloadHandler):
    """Scrapy's download handler, which uses the spider's HTTP client."""

    async def download_request(self, request: Request) -> Response:
        outgoing: Outgoing = self.crawler.spider.outgoing  # type: ignore[union-attr]
        bounds: Bounds = request.meta["bounds"]
        headers = {name.decode(): values[-1].decode("latin-1") for name, values in request.headers.items()}
        await self.crawler.spider.calm(request.url)  # type: ignore[union-attr]
        async with outgoing.request("GET", request.url, headers=headers, bounds=bounds) as reply:
            request.meta["wait"] = reply.asked.wait
            wanted = reply.good and is_read(reply.headers.get("content-type", ""), request.meta["kind"])
            body = await reply.read() if wanted else b""
            request.meta["received"] = reply.received
        known: dict[str, Any] = {k: v for k, v in reply.headers.items() if k != "content-encoding"}
        kind = responsetypes.from_args(Headers(known), request.url, body=body)
        return kind(request.url, status=reply.status, headers=known, body=body, request=request)


def is_read(content_type: str, kind: str) -> bool:
    """Return True if a content type is text."""
    named = content_type.lower().strip()
    return not named or named.startswith(READ) or (kind == "sitemap" and named.startswith(PACKED))
