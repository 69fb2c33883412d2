"""One crawl, from its first URL to its result."""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from scrapy.crawler import AsyncCrawlerRunner
from scrapy.settings import Settings

from ostinato.config import Grants
from ostinato.core.arguments import read
from ostinato.core.errors import OstinatoError
from ostinato.core.model import AskedBy
from ostinato.core.payload import MIB
from ostinato.features.crawling.args import CrawlArgs
from ostinato.features.crawling.ledger import COUNTED, Ledger, Scope
from ostinato.features.crawling.robots import PoliteGate, Robots, origin_of
from ostinato.features.crawling.rows import rests_until
from ostinato.features.crawling.spider import PageSpider
from ostinato.outgoing import Outgoing
from ostinato.task import Context, Defer, GiveUp
from ostinato.task.signals import hide_frames_of

hide_frames_of(__file__)  # errors of other sites are no bugs of Ostinato

MOST_HOSTS_AT_ONCE: Final = 8
SETTINGS: Final = {
    "TWISTED_REACTOR_ENABLED": False,  # only asyncio: a process can then run several crawls in turn
    "DOWNLOAD_HANDLERS_BASE": {},
    "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "ostinato.features.crawling.spider.Downloads"),
    "DOWNLOADER_MIDDLEWARES_BASE": {},  # no cookies, cache or proxy; Ostinato reads robots.txt and redirects
    "SPIDER_MIDDLEWARES_BASE": {},
    "EXTENSIONS_BASE": {},
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # the ledger finds duplicates
    "DOWNLOAD_DELAY_JITTER": 0,
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


async def visit(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    """Crawl a site."""
    args = read(CrawlArgs, given)
    scope = Scope.of(args)
    hand = 2 * args.concurrency * min(len(scope.hosts), MOST_HOSTS_AT_ONCE)
    ledger = Ledger(ctx, scope, args.max_pages, args.max_mb * MIB, hand)
    await ledger.begin()
    due = _due(ctx, args, ledger)
    gate = PoliteGate(ledger.ask, args.delay.total_seconds())
    outgoing = Outgoing(egress=ctx.permits.egress, grants=Grants.of(ctx.permits), gate=gate)
    robots = Robots(outgoing, args.user_agent, args.robots)
    try:
        if ledger.fresh:
            await _begin(args, ledger, robots)
        spider = await _crawled(args, ledger, robots, outgoing, gate)
    finally:
        await outgoing.close()
    if not ledger.counters["crawled"] and spider.forbidden is not None:
        raise GiveUp(f"The robots.txt of {origin_of(spider.forbidden)} forbids {spider.forbidden}.")
    await ledger.end()
    ctx.flush_progress()
    result = _result(ledger, due)
    ctx.log.info("crawled", **{name: value for name, value in result.items() if value and name != "due"})
    return result


def _due(ctx: Context, args: CrawlArgs, ledger: Ledger) -> datetime:
    """Return the due time of this crawl; raise Defer while a site without changes rests."""
    if args.rest_up_to is None or ledger.last is None:
        return ctx.due_at
    at, result = ledger.last
    last, unchanged = datetime.fromisoformat(result.get("due", at)), result.get("unchanged_crawls", 0)
    if ctx.live.asked is AskedBy.HAND:
        return last  # a run by hand must not move the grid of the schedule
    until = rests_until(ctx.definition.schedule, last, unchanged, args.rest_up_to)
    if until is None or until <= ctx.due_at:
        return ctx.due_at
    if ctx.live.releases == 0 and ctx.attempt == 0:
        raise Defer(until)
    return until


async def _begin(args: CrawlArgs, ledger: Ledger, robots: Robots) -> None:
    start = sorted(ledger.scope.start)
    ledger.find(start, 0)
    if args.sitemaps:
        for origin in sorted({origin_of(url) for url in start}):
            rules = await robots.of(origin + "/")
            ledger.find(rules.sitemaps(origin), 0, "sitemap")


async def _crawled(args: CrawlArgs, ledger: Ledger, robots: Robots, outgoing: Outgoing, gate: PoliteGate) -> PageSpider:
    logging.getLogger("scrapy").setLevel(logging.WARNING)
    runner = AsyncCrawlerRunner(Settings(SETTINGS))
    crawler = runner.create_crawler(PageSpider)
    turning = asyncio.create_task(ledger.keep_turning())
    try:
        await runner.crawl(crawler, args=args, ledger=ledger, robots=robots, outgoing=outgoing, gate=gate)
    except asyncio.CancelledError:
        with suppress(OstinatoError):
            await ledger.save()
        raise
    finally:
        turning.cancel()
    if ledger.trouble is not None:
        with suppress(OstinatoError):
            await ledger.save()
        raise ledger.trouble
    spider = crawler.spider
    assert isinstance(spider, PageSpider)
    return spider


def _result(ledger: Ledger, due: datetime) -> dict[str, Any]:
    counters = ledger.counters
    quiet = not (counters["new"] or counters["changed"] or counters["gone"])
    result = {} if ledger.last is None else ledger.last[1]
    return {
        "items_crawled": counters["crawled"],
        "items_indexed": counters["indexed"],
        **{name: counters[name] for name in COUNTED},
        "ended_by": ledger.limit,
        "unchanged_crawls": result.get("unchanged_crawls", 0) + 1 if quiet else 0,
        "due": due.isoformat(),
    }
