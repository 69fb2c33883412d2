"""A crawl whose worker is killed is taken up by another, which fetches only what was not kept."""

from __future__ import annotations

import json

import pytest

from ostinato import Handle, Ostinato
from ostinato.features.crawling.search import CrawledPage, CrawledPages, PageFilter
from ostinato.task import Call
from tests.features.crawling.site import DEPTH, Site, a_site, expected
from tests.system.conftest import Workshop
from tests.waiting import eventually

pytestmark = pytest.mark.system

SLOW_OR_ODD = ["/slow", "/huge", "/bomb", "/flaky", "/broken", "/missing", "/noindex", "/no-charset"]
ENOUGH = 120


def kept(workshop: Workshop, site: Site) -> dict[str, CrawledPage]:
    found, _ = workshop.app.parts.store.part(CrawledPages).search(PageFilter(), 5000, 0)
    return {page.url.removeprefix(site.url): page for page in found}


def crawl(workshop: Workshop, site: Site) -> Handle:
    """Ordered by an app that may crawl this host."""
    args = {"url": site.url, "delay": "5ms", "concurrency": 4, "max_depth": DEPTH, "deny": SLOW_OR_ODD}
    app = Ostinato("workshop", database_url=workshop.url, allow_private_addresses=True)
    app.open()
    (handle,) = app.enqueue([Call("crawl", json.dumps(args))])
    app.close()
    return workshop.app.handle(handle.id)


def test_a_crawl_goes_on_after_kill_9_without_fetching_again_what_was_kept(workshop: Workshop):
    with a_site() as site:
        first = workshop.start_one(allow_private_addresses=True)
        job = crawl(workshop, site)
        eventually(lambda: len(kept(workshop, site)) >= ENOUGH)
        first.kill()
        before = kept(workshop, site)
        assert len(before) < len(expected())
        eventually(lambda: site.under_way == 0)
        site.hits.clear()
        workshop.start_one(allow_private_addresses=True)
        workshop.all_done([job])
        assert workshop.results(job) == ["lost", "completed"]
        assert kept(workshop, site).keys() == expected() - set(SLOW_OR_ODD)
        fetched = site.asked()
        assert not before.keys() & fetched.keys()
        assert all(times == 1 for times in fetched.values())
        ended = job.wait()
        assert ended.items_crawled == len(expected() - set(SLOW_OR_ODD))
