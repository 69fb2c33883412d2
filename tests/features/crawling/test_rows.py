"""Turns of a crawl: pages, their URLs and the counters, in one transaction, under the fence."""

import json
from dataclasses import replace

import pytest

from ostinato.features.crawling.rows import Crawls, CrawlTurn, Fetched, FoundUrl, Touched
from ostinato.features.crawling.search import FOUND, FOUND_ENDS, CrawledPages, PageFilter, as_match, as_web_search
from ostinato.features.crawling.service import starred
from ostinato.features.crawling.urls import page_id
from tests.build import HOUR, MINUTE, SECOND
from tests.store.conftest import FAILURE

SITE = "https://example.org"


def a_page(path="/", text="Hello", title="A page", **given):
    values = {
        "url": SITE + path, "status": 200, "error": "", "content_type": "text/html", "title": title,
        "description": "", "text": text, "language": "en", "links": "[]", "columns": "{}", "hash": text,
        "rules": "r1", "etag": "", "last_modified": "", "size": 10, "depth": 0,
    }  # fmt: skip
    return Fetched(**values | given)


def a_turn(fetched=(), touched=(), found=(), done=None, want=10, **counters):
    visited = [each.url for each in (*fetched, *touched)] if done is None else done
    return CrawlTurn(fetched, touched, visited, found, json.dumps(counters), want)


def found(*paths, depth=1):
    return [FoundUrl(SITE + path, "page", depth, 0, place) for place, path in enumerate(paths)]


@pytest.fixture
def crawl(world):
    """The live row of a running crawl."""
    world.add_one(every=HOUR)
    world.advance(HOUR)
    world.fire()
    return world.claim(world.worker())[0].live


def waiting(turned):
    return [each.url.removeprefix(SITE) for each in turned[1]]


def test_what_is_found_waits_once_in_the_order_of_depth_and_place(world, crawl):
    crawls = world.store.part(Crawls)
    new, _ = crawls.turn(crawl, a_turn(found=found("/b", "/a", depth=2)), world.now)
    assert new == 2
    new, next_ones = crawls.turn(crawl, a_turn(found=found("/c", "/a")), world.now)
    assert new == 1
    assert [each.url for each in next_ones] == [SITE + "/c", SITE + "/b", SITE + "/a"]


def test_a_turn_that_is_said_twice_changes_nothing_more(world, crawl):
    turn = a_turn([a_page("/")], found=found("/a"), pages=1)
    first = world.store.part(Crawls).turn(crawl, turn, world.now)
    again = world.store.part(Crawls).turn(crawl, turn, world.now)
    assert (waiting(first), waiting(again), again[0]) == (["/a"], ["/a"], 0)
    assert world.store.part(CrawledPages).search(PageFilter(), 10, 0)[1] == 1


def test_g2_a_turn_under_a_stale_fence_leaves_nothing(world, crawl):
    stale = replace(crawl, fence=crawl.fence - 1)
    turn = a_turn([a_page("/")], found=found("/a"))
    assert world.store.part(Crawls).turn(stale, turn, world.now) is None
    assert world.store.part(Crawls).begin(stale) is None
    assert not world.store.part(Crawls).end(stale)
    assert world.store.part(CrawledPages).search(PageFilter(), 10, 0) == ([], 0)
    assert world.store.part(Crawls).begin(crawl).seen == 0


def test_visited_urls_do_not_come_again_to_whoever_goes_on(world, crawl):
    crawls = world.store.part(Crawls)
    crawls.turn(crawl, a_turn(found=found("/", "/a", "/b")), world.now)
    crawls.turn(crawl, a_turn([a_page("/"), a_page("/a")]), world.now)
    begun = world.another().part(Crawls).begin(crawl)
    assert (begun.seen, begun.done) == (3, 2)
    assert waiting(crawls.turn(crawl, a_turn(), world.now)) == ["/b"]


def test_the_time_of_a_change_moves_only_with_the_content(world, crawl):
    crawls, pages = world.store.part(Crawls), world.store.part(CrawledPages)
    began = world.now
    crawls.turn(crawl, a_turn([a_page()]), world.now)
    crawls.turn(crawl, a_turn([a_page(title="Other markup")]), world.advance(MINUTE))
    ((page,), _) = pages.search(PageFilter(), 10, 0)
    assert (page.first_seen_at, page.changed_at, page.fetched_at) == (began, began, began + MINUTE)
    crawls.turn(crawl, a_turn([a_page(text="New")]), world.advance(MINUTE))
    ((page,), _) = pages.search(PageFilter(), 10, 0)
    assert (page.first_seen_at, page.changed_at) == (began, world.now)


def test_what_did_not_change_or_did_not_answer_keeps_its_content(world, crawl):
    crawls, pages = world.store.part(Crawls), world.store.part(CrawledPages)
    crawls.turn(crawl, a_turn([a_page("/a", text="alpha"), a_page("/b", text="beta")]), world.now)
    touched = [Touched(SITE + "/a", 304, ""), Touched(SITE + "/b", 503, "503 Service Unavailable")]
    crawls.turn(crawl, a_turn(touched=touched), world.advance(MINUTE))
    by_url = {page.url.removeprefix(SITE): page for page in pages.search(PageFilter(), 10, 0)[0]}
    assert (by_url["/a"].status, by_url["/a"].error, by_url["/a"].fetched_at) == (200, "", world.now)
    assert (by_url["/b"].status, by_url["/b"].error) == (503, "503 Service Unavailable")
    assert pages.get(by_url["/b"].id).text == "beta"


def test_crawls_take_turns_at_a_host_and_leave_it_the_pause_of_whoever_was_last(world, crawl):
    crawls, other, now = world.store.part(Crawls), world.another().part(Crawls), world.now
    assert crawls.take_turn("example.org", now, 2 * SECOND) == now
    assert other.take_turn("example.org", now, 5 * SECOND) == now + 2 * SECOND
    assert crawls.take_turn("example.org", now + SECOND, SECOND) == now + 7 * SECOND
    assert crawls.take_turn("example.com", now, SECOND) == now, "every host has its own"
    assert other.take_turn("example.org", now + MINUTE, SECOND) == now + MINUTE


def test_a_clock_that_was_set_back_keeps_nobody_waiting_for_ever(world, crawl):
    crawls, now = world.store.part(Crawls), world.now
    crawls.take_turn("example.org", now + 24 * HOUR, SECOND)
    assert crawls.take_turn("example.org", now, SECOND) <= now + HOUR


def test_hosts_are_forgotten_when_nobody_asks_them_any_more(world, crawl):
    crawls, now = world.store.part(Crawls), world.now
    crawls.take_turn("example.org", now, SECOND)
    crawls.take_turn("example.com", now + 2 * HOUR, SECOND)
    crawls.forget_hosts(now + 2 * HOUR)
    with world.store.database.read() as tx:
        found = tx.rows(world.store.database.dialect.statement("SELECT host FROM {crawl_hosts}"))
    assert [host for (host,) in found] == ["example.com"]


def test_what_an_earlier_crawl_knows_comes_with_the_url(world, crawl):
    crawls = world.store.part(Crawls)
    page = a_page("/a", etag='"1"', links='["x"]')
    turned = crawls.turn(crawl, a_turn([page], found=found("/a", "/b"), done=[]), world.now)
    known = {each.url.removeprefix(SITE): each for each in turned[1]}
    assert (known["/a"].etag, known["/a"].hash, known["/a"].rules, known["/a"].links) == (
        '"1"', "Hello", "r1", '["x"]',
    )  # fmt: skip
    assert known["/b"].hash is None


def test_words_are_found_the_best_page_first_and_forgotten_with_the_change(world, crawl):
    crawls, pages = world.store.part(Crawls), world.store.part(CrawledPages)
    crawls.turn(
        crawl,
        a_turn([
            a_page("/a", title="Trains", text="Everything about harbours and trains " * 9),
            a_page("/b", title="Harbours", text="Ships, harbours and the sea"),
            a_page("/c", title="Über Straßen", text="Ein Text über Züge"),
        ]),
        world.now,
    )  # fmt: skip

    def paths(words, **given):
        found, total = pages.search(PageFilter(words, **given), 10, 0)
        assert total == len(found)
        return [page.url.removeprefix(SITE) for page in found]

    assert paths("harbours") == ["/b", "/a"]
    assert paths("HARBOURS trains") == ["/a"]
    assert paths('"ships harbours"') == ["/b"]
    assert paths("harbours -ships") == ["/a"]
    assert paths("züge") == ["/c"]
    assert paths("nothing") == []
    assert paths('"') == []
    assert paths("harbours", host="example.org") == ["/b", "/a"]
    assert paths("harbours", host="example.com") == []
    assert paths("harbours", job_id=crawl.job_id) == ["/b", "/a"]
    snippet = pages.search(PageFilter("harbours"), 10, 0)[0][0].snippet
    assert f"Ships, {FOUND}harbours{FOUND_ENDS}" in snippet
    assert "Ships, **harbours**" in starred(snippet)
    crawls.turn(crawl, a_turn([a_page("/b", title="Hills", text="Hills only")]), world.now)
    assert paths("harbours") == ["/a"]
    assert paths("hills") == ["/b"]


def test_a_job_that_is_deleted_shows_no_pages_and_then_has_none(world, crawl):
    crawls, pages = world.store.part(Crawls), world.store.part(CrawledPages)
    crawls.turn(crawl, a_turn([a_page(f"/{n}") for n in range(1200)], found=found("/x")), world.now)
    world.command(crawl.job_id, "delete")
    assert pages.search(PageFilter(), 10, 0) == ([], 0)
    assert pages.search(PageFilter("hello"), 10, 0) == ([], 0)
    assert pages.get(page_id(crawl.job_id, SITE + "/0")) is None
    world.store.workers.leave(crawl.worker_id, world.now)
    while world.store.history.remove_deleted():
        pass
    with world.store.database.read() as tx:
        statement = world.store.database.dialect.statement
        for table in ("pages", "crawl_urls"):
            assert tx.rows(statement(f"SELECT count(*) FROM {{{table}}}"))[0][0] == 0


def test_the_urls_of_an_occurrence_are_forgotten_when_it_is_over(world, crawl):
    crawls = world.store.part(Crawls)
    crawls.turn(crawl, a_turn(found=found("/a", "/b")), world.now)
    assert crawls.end(crawl)
    assert crawls.begin(crawl).seen == 0


def test_what_an_occurrence_that_failed_left_goes_when_the_next_begins(world):
    crawls, worker = world.store.part(Crawls), world.worker()
    world.add_one(every=HOUR, max_retries=0)
    world.advance(HOUR)
    world.fire()
    (first,) = world.claim(worker)
    crawls.turn(first.live, a_turn(found=found("/a")), world.now)
    world.settle([first], FAILURE)
    world.advance(HOUR)
    world.fire()
    (second,) = world.claim(worker)
    crawls.begin(second.live)
    with world.store.database.read() as tx:
        assert tx.rows("count_crawl_urls", job=first.live.job_id, number=first.live.number) == [(0, 0)]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("a b", '"a" AND "b"'),
        ('"a b" -c', '"a b" NOT "c"'),
        ("o'neill", '"o neill"'),
        ("-c", ""),
        ("*", ""),
        ('"NEAR(', '"NEAR"'),
        ("pip --interactive", '"pip" AND "interactive"'),
        ("pip ---interactive -c", '"pip" AND "interactive" NOT "c"'),
        ("a -- b -", '"a" AND "b"'),
    ],
)
def test_words_of_strangers_are_quoted_for_sqlite(words, match):
    assert as_match(words) == match


@pytest.mark.parametrize(
    ("words", "search"),
    [
        ('"a b" -c 3.11', '"a b" -c 3.11'),
        ('pip --interactive --"two words"', 'pip interactive "two words"'),
        ('-"without these" x-ray -- -', '-"without these" x-ray'),
    ],
)
def test_more_than_one_minus_is_no_wish_to_do_without_on_postgres_either(words, search):
    assert as_web_search(words) == search
