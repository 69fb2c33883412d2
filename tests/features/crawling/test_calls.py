"""What a crawl in its process asks of its worker: only JSON, and nothing is written under a stale fence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ostinato.clock import ManualClock
from ostinato.features.crawling.calls import CALLS
from ostinato.features.crawling.rows import Crawls
from ostinato.features.crawling.search import CrawledPages, PageFilter
from ostinato.store.kernel import Kernel
from ostinato.task.context import written
from tests.build import HOUR

URL = "https://example.org/"
PAGE = {
    "url": URL, "status": 200, "error": "", "content_type": "text/html", "title": "A page", "description": "",
    "text": "Hello", "language": "en", "links": "[]", "columns": "{}", "hash": "1", "rules": "r1", "etag": "",
    "last_modified": "", "size": 10, "depth": 0,
}  # fmt: skip
TURN = {
    "fetched": [PAGE], "touched": [], "done": [URL], "found": [[f"{URL}a", "page", 1, 0, 1]],
    "counters": {"counters": {"crawled": 1}}, "want": 10,
}  # fmt: skip
FENCED = ["begin", "turn", "end"]


class Crawl:
    """A running crawl, and its calls as they reach the worker."""

    def __init__(self, world):
        world.add_one(every=HOUR)
        world.advance(HOUR)
        world.fire()
        self.live = world.claim(world.worker())[0].live
        self.world, self.kernel = world, Kernel(world.store, ManualClock(world.now), world.store.chance)

    def call(self, name, request=None, live=None):
        reply = CALLS[name].answer(self.kernel, live or self.live, json.loads(json.dumps(request)))
        return None if reply is None else json.loads(written(reply, name))

    def stale(self, name, request=None):
        return self.call(name, request, replace(self.live, fence=self.live.fence - 1))

    def rows(self):
        ((live,),) = self.world.sql("SELECT checkpoint FROM {live}")
        urls = self.world.sql("SELECT url, done_at FROM {crawl_urls}")
        return live, urls, self.kernel.part(CrawledPages).search(PageFilter(), 10, 0)


@pytest.fixture
def crawl(world):
    return Crawl(world)


def test_a_crawl_begins_stores_its_turns_and_ends(crawl):
    assert crawl.call("begin") == [{"seen": 0, "done": 0, "last": None}, None]
    value, checkpoint = crawl.call("turn", TURN)
    assert value == {"new": 1, "waiting": [[f"{URL}a", "page", 1, 0, None, None, None, None, None]]}
    assert json.loads(checkpoint) == TURN["counters"]  # the context of the run keeps it
    assert crawl.call("begin")[0]["seen"] == 1
    assert crawl.call("end") == [None, None]
    assert crawl.call("begin")[0]["seen"] == 0


def test_each_call_is_tested_with_a_stale_fence_here():
    assert {*FENCED, "take_turn"} == set(CALLS)


@pytest.mark.parametrize("name", FENCED)
def test_g2_a_call_under_a_stale_fence_says_so_and_leaves_nothing(crawl, name):
    crawl.call("turn", TURN)
    before = crawl.rows()
    further = TURN | {"fetched": [PAGE | {"text": "Other", "hash": "2"}], "counters": {}}
    assert crawl.stale(name, further if name == "turn" else None) is None
    assert crawl.rows() == before


def test_g2_a_turn_at_a_host_under_a_stale_fence_is_counted_and_changes_nothing_of_the_run(crawl):
    """A crawl that is lost may still send a request: the others leave it its pause."""
    before = crawl.rows()
    asked = {"host": "example.org", "pause": 2}
    assert crawl.stale("take_turn", asked) == [0, None]
    assert crawl.call("take_turn", asked) == [2, None]
    assert crawl.rows() == before


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_repeated_while_the_database_is_away_and_said_twice_does_no_harm(crawl, name):
    assert CALLS[name].repeats
    given = {"turn": TURN, "take_turn": {"host": "example.org", "pause": 0}}.get(name)
    crawl.call(name, given)
    once = crawl.rows()
    assert crawl.call(name, given) is not None
    assert crawl.rows() == once


def test_hosts_are_deleted_when_they_are_only_old(crawl):
    crawl.call("take_turn", {"host": "example.org", "pause": 2})
    crawl.kernel.part(Crawls).forget_hosts(crawl.world.now + 2 * HOUR)
    assert crawl.world.sql("SELECT host FROM {crawl_hosts}") == []
