"""A crawl of a real site, by a real worker, in a process of its own: its pages, its requests and their pace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from ostinato import Ostinato
from ostinato.features.crawling.search import CrawledPage
from ostinato.features.crawling.service import CrawledPageService
from ostinato.features.providers.rules import Provider
from ostinato.features.providers.service import ProviderService
from ostinato.service import ExecutionView
from ostinato.task import Call
from tests.features.crawling.site import DEPTH, IN_SITEMAPS, Site, a_site, expected, troubled
from tests.waiting import PATIENCE, until

EXTRACT = {"price": "span.price::text", "tags": {"css": ".tag", "all": True}, "heading": "//h1"}
ARGS = {
    "delay": 0, "concurrency": 4, "max_depth": DEPTH, "max_page_mb": 1, "page_timeout": "10s", "extract": EXTRACT,
}  # fmt: skip

Crawl = Callable[..., ExecutionView]


@pytest.fixture
def site() -> Iterator[Site]:
    with a_site() as site:
        yield site


@pytest.fixture
def app(database_url: str) -> Iterator[Ostinato]:
    app = Ostinato("shop", database_url=database_url, poll_interval="1s", allow_private_addresses=True)
    app.open(upgrade=True)
    yield app
    app.close()


def crawl(app: Ostinato, url: str, **args: Any) -> ExecutionView:
    """Crawl once with a new job."""
    return crawls(app, {"url": url, "delay": 0, "concurrency": 4, **args})[0]


def crawls(app: Ostinato, *args: dict[str, Any]) -> list[ExecutionView]:
    async def main() -> list[ExecutionView]:
        async with app.running():
            handles = app.enqueue([Call("crawl", json.dumps(each)) for each in args])
            return [await handle.await_(PATIENCE) for handle in handles]

    return asyncio.run(main())


def again(app: Ostinato, execution: ExecutionView) -> ExecutionView:
    """Run the same job again."""

    async def main() -> ExecutionView:
        async with app.running():
            app.jobs.run(execution.job_id)
            return await app.handle(execution.job_id).await_(PATIENCE)

    return asyncio.run(main())


def pages(app: Ostinato, site: Site) -> dict[str, CrawledPage]:
    """The stored pages, by path."""
    found: list[CrawledPage] = []
    while len(found) < 5000 and (
        some := app.scheduler.part(CrawledPageService).search(limit=250, offset=len(found)).pages
    ):
        found += some
    return {page.url.removeprefix(site.url): page for page in found}


def test_a_site_of_500_pages_is_crawled_exactly_politely_and_then_only_for_its_changes(app, site):
    ended = crawl(app, site.url, **ARGS)
    assert (ended.status, ended.error) == ("completed", None)
    kept = pages(app, site)
    _exactly_the_pages_that_should_be(kept, site)
    _each_asked_for_once(site)
    _what_is_kept_of_them(app, kept)
    _the_figures(ended, kept)
    _search_finds_words(app, ended, site)

    site.hits.clear()
    site.changed |= {"/p/7", "/about/"}
    site.gone.add("/p/439")
    second = again(app, ended)
    _only_what_changed_is_new(second, pages(app, site), kept, site)


def _exactly_the_pages_that_should_be(kept: dict[str, CrawledPage], site: Site) -> None:
    good = {path for path, page in kept.items() if not page.error}
    assert good == expected()
    assert kept.keys() - good == troubled()
    assert {kept[path].status for path in good} == {200}
    assert kept["/missing"].status == 404
    assert kept["/broken"].error == "It answered 500."
    assert "decompresses to more than" in kept["/bomb"].error
    assert "larger than" in kept["/huge"].error
    assert "sent nothing for 10 s" in kept["/slow"].error
    assert "It cannot be read" in kept["/no-charset"].error


def _each_asked_for_once(site: Site) -> None:
    asked = site.asked()
    late = {
        "/huge",
        "/bomb",
    }  # on a busy machine they take longer than their second: then they are requested again
    several = {path: times for path, times in asked.items() if times > 1 and path not in late}
    assert several == {"/slow": 3, "/broken": 3, "/flaky": 2}
    assert not asked.keys() & {
        "/private/secret",
        "/only-from-there",
        "/picture.png",
        "/index.html",
        "/p/0?utm_source=page1",
    }
    assert {path for path in asked if path.startswith("/long/")} == {f"/long/{hop}" for hop in range(6)}
    assert {hit.agent for hit in site.hits} == {"Ostinato"}
    assert site.most_under_way <= 4
    assert not any(hit.conditional for hit in site.hits)


def _what_is_kept_of_them(app: Ostinato, kept: dict[str, CrawledPage]) -> None:
    home = kept["/"]
    assert (home.title, home.description, home.language, home.depth) == ("Home", "All about lamps", "en", 0)
    whole = app.scheduler.part(CrawledPageService).get(f"{home.id:016x}")
    assert "Welcome to the lighthouse" in whole.text
    assert "hidden" not in whole.text
    assert "http://10.0.0.1/" in whole.links
    assert kept["/latin"].title == "Café"
    assert kept["/cyrillic"].title == "Поезд"
    assert kept["/lies"].title == "Lies"
    assert kept["/data"].content_type == "application/octet-stream"
    assert kept["/item"].columns == {"price": "12.50", "tags": ["red", "blue"], "heading": "An item"}
    assert kept["/p/3"].columns == {"price": None, "tags": [], "heading": "Page 3"}


def _the_figures(ended: ExecutionView, kept: dict[str, CrawledPage]) -> None:
    told = ended.result
    assert (ended.items_crawled, ended.items_indexed) == (len(expected()), len(expected()) - 1)
    assert (told["items_crawled"], told["items_indexed"]) == (ended.items_crawled, ended.items_indexed)
    assert (told["new"], told["changed"], told["unchanged"]) == (len(expected()), 0, 0)
    assert (told["duplicates"], told["noindex"], told["forbidden"], told["sitemaps"]) == (1, 1, 1, 3)
    assert told["ended_by"] is None
    assert ended.memory_peak_mb is not None


def _search_finds_words(app: Ostinato, ended: ExecutionView, site: Site) -> None:
    def found(words: str, **given: Any) -> set[str]:
        pages = app.scheduler.part(CrawledPageService).search(words, limit=250, **given).pages
        return {page.url.removeprefix(site.url) for page in pages}

    assert found("number7") == {"/p/7"}
    assert found('"bell rings"') == {"/odd"}
    assert found("windmills") == {"/plain.txt"}
    assert found('"Железная дорога"') == {"/cyrillic"}
    assert found("sitemap knows", job=str(ended.job_id)) == {f"/s/{n}" for n in range(IN_SITEMAPS)}
    assert found("keeper", host=site.url.removeprefix("http://")) == {"/about/"}
    assert found("keeper", host="example.org") == set()
    assert found("unkept") == found('"nobody may read"') == set()
    assert app.scheduler.part(CrawledPageService).search("lighthouse").total > 400


def _only_what_changed_is_new(
    second: ExecutionView, now: dict[str, CrawledPage], before: dict[str, CrawledPage], site: Site
) -> None:
    told = second.result
    assert second.status == "completed"
    assert (told["new"], told["changed"], told["gone"]) == (0, 2, 1)
    assert (told["items_crawled"], told["items_indexed"]) == (len(expected()) - 1, 2)
    assert now.keys() == before.keys()
    moved = {path for path in now if now[path].changed_at != before[path].changed_at}
    assert moved == {"/p/7", "/about/", "/p/439"}
    assert all(now[path].fetched_at > before[path].fetched_at for path in now)
    assert (now["/p/439"].status, now["/p/439"].title) == (410, "")
    tree = [hit for hit in site.hits if hit.path.startswith("/p/")]
    assert all(hit.conditional for hit in tree)
    assert len(tree) == len({hit.path for hit in tree})


def test_limits_and_scope_hold(app, site):
    few, deep, only, without = crawls(
        app,
        {"url": f"{site.url}/p/0", "delay": 0, "max_pages": 10, "sitemaps": False},
        {"url": f"{site.url}/calendar/1", "delay": 0, "max_depth": 3, "sitemaps": False},
        {"url": f"{site.url}/", "delay": 0, "allow": ["/p/1$", "/p/3$"], "sitemaps": False},
        {"url": f"{site.url}/calendar/1", "delay": 0, "deny": ["/*endar/4"], "max_mb": 1, "sitemaps": False},
    )

    def kept(ended: ExecutionView) -> set[str]:
        found = app.scheduler.part(CrawledPageService).search(job=str(ended.job_id), limit=250).pages
        return {page.url.removeprefix(site.url) for page in found}

    assert (few.result["items_crawled"], few.result["ended_by"], len(kept(few))) == (10, "max_pages", 10)
    assert kept(deep) == {f"/calendar/{n}" for n in range(1, 5)}
    assert kept(only) == {"/"}  # only /p/0 links to /p/1
    assert kept(without) == {"/calendar/1", "/calendar/2", "/calendar/3"}


def test_hosts_are_asked_as_rarely_as_the_job_and_their_robots_say(app, site):
    site.robots = "User-agent: *\nCrawl-delay: 0.4\n"
    ended = crawl(app, f"{site.url}/calendar/1", max_pages=5, delay="100ms", sitemaps=False)
    assert ended.status == "completed"
    times = [hit.at for hit in site.hits if hit.path.startswith("/calendar/")]
    assert len(times) == 5
    assert times[-1] - times[0] > 1.2  # four pauses of 0.4 s, and one that began late; by the job's own it were 0.4


def test_crawls_of_one_host_share_its_pauses(app, site):
    args = {"delay": "300ms", "max_pages": 5, "sitemaps": False, "robots": False}
    both = crawls(app, {"url": f"{site.url}/calendar/1", **args}, {"url": f"{site.url}/p/0", **args})
    assert [each.items_crawled for each in both] == [5, 5]
    times = [hit.at for hit in site.hits]
    assert len(times) == 12  # each requests robots.txt, which may name sitemaps
    assert times[-1] - times[0] > 0.8 * 0.3 * 11  # alone each would need half of it


def test_what_cannot_be_crawled_fails_with_a_sentence(app, site):
    site.robots = "User-agent: *\nDisallow: /private/\n"
    refused, missing, metadata = crawls(
        app,
        {"url": f"{site.url}/private/secret", "sitemaps": False},
        {"url": f"{site.url}/missing", "sitemaps": False},
        {"url": f"{site.url}/to-metadata", "sitemaps": False},
    )
    assert refused.error == f"The robots.txt of {site.url} forbids {site.url}/private/secret."
    assert missing.error == f"{site.url}/missing cannot be crawled: It answered 404."
    assert (metadata.status, metadata.result, metadata.traceback) == ("failed", None, None)
    assert "169.254.169.254" in metadata.error
    assert app.scheduler.part(CrawledPageService).search().total == 0


def test_private_addresses_are_refused_unless_they_are_allowed(database_url, site):
    app = Ostinato("shop", database_url=database_url)
    app.open(upgrade=True)
    with pytest.raises(ValueError, match=r"args\.url must not lead into a private network"):
        app.enqueue([Call("crawl", json.dumps({"url": site.url}))])
    app.close()
    assert site.hits == []


def test_a_crawl_that_finds_a_budget_spent_is_put_off_and_keeps_what_it_has(app, site):
    site.robots = ""
    app.scheduler.part(ProviderService).create(Provider("127.0.0.1", 4, timedelta(hours=1)))

    async def main() -> ExecutionView:
        async with app.running():
            args = {"url": f"{site.url}/calendar/1", "delay": 0, "concurrency": 1, "sitemaps": False}
            (handle,) = app.enqueue([app.call("crawl", **args)])
            return await until(lambda: [e for e in app.executions.list(job=handle.id) if e.waits_for])

    (waits,) = asyncio.run(main())
    assert (waits.status, waits.waits_for) == ("queued", "time")
    assert waits.attempt == 0
    assert len(site.hits) == 4  # robots.txt and three months
    assert pages(app, site).keys() == {"/calendar/1", "/calendar/2", "/calendar/3"}
    assert app.scheduler.part(ProviderService).get("127.0.0.1").waiting == 1


def test_a_site_that_does_not_change_rests_at_due_times_of_its_schedule(app, site):
    site.robots = ""
    args = {"url": f"{site.url}/s/1", "delay": 0, "sitemaps": False, "rest_up_to": "1m"}
    app.schedule(app.call("crawl", **args), every="1s", key="site", first_run="now")

    def three_have_ended() -> list[ExecutionView]:
        found = [each for each in app.executions.list(job="site", limit=50) if each.outcome]
        return found[::-1] if len(found) >= 3 else []

    async def main() -> list[ExecutionView]:
        async with app.running():
            return await until(three_have_ended)

    ended = asyncio.run(main())
    assert [each.result["unchanged_crawls"] for each in ended[:3]] == [0, 1, 2]
    due = [datetime.fromisoformat(each.result["due"]) for each in ended[:3]]
    gaps = [later - earlier for earlier, later in pairwise(due)]
    assert all(gap % timedelta(seconds=1) == timedelta(0) for gap in gaps)
    assert gaps[1] >= timedelta(seconds=2)  # and so on, twice as long each time: test_rules.py
    assert all(each.started_at >= at for each, at in zip(ended, due, strict=False))


def test_a_crawl_can_be_cancelled(app, site):
    site.hold.clear()

    async def main() -> ExecutionView:
        async with app.running():
            (handle,) = app.enqueue([Call("crawl", json.dumps({"url": site.url, "page_timeout": "60s"}))])
            await until(lambda: site.hits)
            handle.cancel()
            return await handle.await_(PATIENCE)

    ended = asyncio.run(main())
    assert ended.outcome == "cancelled"
    assert ended.duration is not None
    assert ended.duration < timedelta(seconds=60)
