"""Fetching the next page while one is stored: not past a limit, nor when the API asks to wait."""

import threading

import pytest

from ostinato.core.errors import StoreError
from ostinato.features.sources.rows import SourceRecords
from tests.features.sources.test_fetch import app, numbers, run_once  # noqa: F401  a fixture
from tests.played_api import PlayedApi, a_source_of, by_page
from tests.waiting import PATIENCE

PAGED = {"type": "page", "limit": 10, "hasMorePath": "more"}


@pytest.fixture
def api():
    with PlayedApi() as api:
        yield api


@pytest.fixture
def storing(monkeypatch):
    """A call before each page is stored."""
    before, store = [], SourceRecords.insert

    def insert(*args):
        for each in before:
            each()
        return store(*args)

    monkeypatch.setattr(SourceRecords, "insert", insert)
    return before


def paged(api, path="/page", **more):
    return a_source_of(api.url(path), path="data.items", pagination=PAGED, **more)


def test_the_next_page_is_asked_for_while_one_is_stored_and_its_failure_takes_nothing_away(app, api, storing):  # noqa: F811
    asked = threading.Event()

    def second_fails(handler):
        if handler.query["page"] == "1":
            by_page(handler)
        else:
            asked.set()
            handler.answer({"error": "out of order"}, 500)

    api.bodies["/second-fails"] = second_fails
    storing.append(lambda: asked.wait(PATIENCE))
    ended = run_once(app, paged(api, "/second-fails"))
    assert asked.is_set()
    assert "Page 2" in ended.error
    assert numbers(app) == list(range(10))
    assert (ended.items_crawled, ended.items_indexed) == (10, 10)


def test_a_page_that_cannot_be_stored_ends_the_run_though_the_next_one_hangs(app, api, storing):  # noqa: F811
    asked = threading.Event()

    def second_hangs(handler):
        if handler.query["page"] == "1":
            by_page(handler)
        else:
            asked.set()
            api.go_on.wait(PATIENCE)
            handler.close_connection = True

    def refuse():
        asked.wait(PATIENCE)
        raise StoreError("The database refused.")

    api.bodies["/second-hangs"] = second_hangs
    storing.append(refuse)
    ended = run_once(app, paged(api, "/second-hangs", execution={"timeout": 50}))
    assert ended.error == "Page 1: The database refused."
    assert not api.go_on.is_set()


def test_nobody_is_asked_for_more_pages_than_a_limit_allows(app, api):  # noqa: F811
    run_once(app, paged(api, limits={"maxPages": 2, "onLimit": "stop"}))
    run_once(app, paged(api, limits={"maxRecords": 5, "onLimit": "stop"}) | {"name": "few", "table": "others"})
    assert [query["page"] for query in api.asked("/page")] == ["1", "2", "1"]


def test_an_api_that_asks_to_be_left_alone_is(app, api, storing):  # noqa: F811
    def nothing_left(handler):
        page = int(handler.query["page"])
        items = handler.api.slice((page - 1) * 10, 10)
        used_up = {"RateLimit-Remaining": "0", "RateLimit-Reset": "1"} if page == 1 else {}
        handler.answer({"data": {"items": items}, "more": page < 3}, **used_up)

    seen = []
    api.bodies["/left"] = nothing_left
    storing.append(lambda: seen.append(len(api.requests)))
    ended = run_once(app, paged(api, "/left"))
    assert ended.outcome == "completed", ended.error
    assert (ended.result["pages"], seen[0]) == (3, 1)
