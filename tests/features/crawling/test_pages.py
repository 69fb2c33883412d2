"""Crawled pages in the dashboard: search, display, and escape of hostile content."""

from __future__ import annotations

from html import unescape

import pytest

from ostinato.core.access import Role
from ostinato.features.crawling.rows import Crawls, CrawlTurn, Fetched
from ostinato.features.crawling.service import CrawledPageService
from tests.dashboard.busy import EVIL, Busy
from tests.dashboard.conftest import Visitor

SITE = "https://example.org"


def a_page(path: str = "/", **given: object) -> Fetched:
    values: dict[str, object] = {
        "url": SITE + path, "status": 200, "error": "", "content_type": "text/html", "title": "A page",
        "description": "", "text": "Hello", "language": "en", "links": "[]", "columns": "{}", "hash": path,
        "rules": "r1", "etag": "", "last_modified": "", "size": 10, "depth": 0,
    }  # fmt: skip
    return Fetched(**values | given)  # type: ignore[arg-type]


class Library(Busy):
    """A crawl job with stored pages."""

    def keep(self, *pages: Fetched) -> None:
        turn = CrawlTurn(pages, (), [page.url for page in pages], (), "{}", 0)
        assert self.store.part(Crawls).turn(self.running, turn, self.now) is not None

    def name(self, words: str) -> str:
        (page,) = self.visitor.app.scheduler.part(CrawledPageService).search(words).pages
        return f"{page.id:016x}"


@pytest.fixture
def library(visitor: Visitor) -> Library:
    return Library(visitor)


def test_words_are_found_and_marked_with_where_when_and_by_which_job(library):
    text = "The keeper lights the lamp at dusk. " * 3
    library.keep(a_page("/lamp", title="The lighthouse", text=text), a_page("/else", title="Elsewhere"))
    page = library.visitor.see("/pages?q=lamp")
    assert "<mark>lamp</mark>" in page
    assert "The lighthouse" in page
    assert "Elsewhere" not in page
    assert f'href="{SITE}/lamp" rel="noopener noreferrer nofollow"' in page
    assert f'href="/jobs/{library.job.id}"' in page
    assert "1 to 1 of 1 page" in page
    assert "Elsewhere" in library.visitor.see(f"/pages?job={library.job.id}&host=EXAMPLE.org")


def test_one_page_shows_all_that_is_kept_of_it(library):
    links = '["https://example.org/next"]'
    library.keep(a_page("/a", text="alpha", columns='{"price": "3.50"}', links=links, description="About it"))
    page = library.visitor.see(f"/pages/{library.name('alpha')}")
    for said in ("alpha", "price", "3.50", "https://example.org/next", "About it", "/a"):
        assert said in page


def test_a_long_text_is_cut_and_says_where_the_rest_is(library):
    library.keep(a_page(text="alpha " + "x" * 30_000))
    name = library.name("alpha")
    page = library.visitor.see(f"/pages/{name}")
    assert "x" * 20_000 not in page
    assert f"/api/v1/pages/{name}" in page


def test_whatever_pages_say_stays_text(library):
    library.keep(
        a_page(
            "/?q=%22%3E", title=EVIL, description=EVIL, text=f"lamp {EVIL} \x02<b>\x02 {EVIL}", language="en",
            columns='{"' + "x" * 9 + '": "<script>alert(3)</script>"}', error=EVIL, content_type="<b>",
            links='["javascript:alert(4)", "https://example.org/\\"><script>"]',
        ),
    )  # fmt: skip
    for path in ("/pages?q=lamp", "/pages", f"/pages/{library.name('lamp')}"):
        page = library.visitor.see(path)
        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert "<b>" not in page, path
        assert 'href="javascript' not in page, path
        assert page.count("<mark>") == page.count("</mark>"), path
        assert EVIL in unescape(page), path


def test_a_list_goes_on_and_comes_back(library):
    library.keep(*(a_page(f"/{n}", title=f"Page {n:02}.", hash=str(n), text="lamp") for n in range(45)))
    first = library.visitor.see("/pages?q=lamp")
    assert "1 to 20 of 45 pages" in first
    assert "offset=20" in first
    last = library.visitor.see("/pages?q=lamp&offset=40")
    assert "41 to 45 of 45 pages" in last
    assert "Next page" not in last
    for rubbish in ("-1", "x", "9" * 30, "²"):
        library.visitor.see(f"/pages?offset={rubbish}")


def test_nothing_yet_and_nothing_like_that_say_what_to_do(visitor):
    assert "/jobs/new?task=crawl" in visitor.see("/pages")
    found_none = visitor.see("/pages?q=lamp")
    assert "No pages contain these words" in found_none
    assert 'value="lamp"' in found_none


def test_mistakes_are_told_above_the_list(library):
    library.keep(a_page(title="Still here"))
    for query, code in ((f"q={'x' * 501}", 422), ("job=no-such-job", 404)):
        page = library.visitor.see(f"/pages?{query}", code)
        assert 'class="trouble"' in page
        assert "Still here" in page
    for name in ("zz", "f" * 16, "1" * 40):
        library.visitor.see(f"/pages/{name}", 404)


def test_a_job_that_crawls_leads_to_its_pages(library):
    job = library.add(task="crawl", key="site")
    assert f'href="/pages?job={job.id}"' in library.visitor.see(f"/jobs/{job.id}")
    assert "/pages?job" not in library.visitor.see(f"/jobs/{library.job.id}")


def test_a_viewer_may_search_and_is_not_offered_what_they_may_not_do(stranger: Visitor):
    stranger.see("/pages", 303)
    stranger.log_in(Role.VIEWER)
    assert "/jobs/new" not in stranger.see("/pages")
