"""A source is tried out in the browser before it is saved, by somebody who types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.place import Place, started
from tests.played_api import PlayedApi

COLUMNS = "- {source: id, target: number, type: integer}\n- {source: name}"


@pytest.fixture
def fetching(tmp_path) -> Iterator[Place]:
    """A server that may call this host: the API of the test is here."""
    place = started(tmp_path, "sqlite:///ostinato.db", OSTINATO_ALLOW_PRIVATE_ADDRESSES="true")
    yield place
    place.kill()


def test_the_first_page_of_a_source_is_seen_as_a_table_and_then_it_is_made(fetching, open_page):
    with PlayedApi() as api:
        page = open_page(fetching.address + "/sources/new")
        for name, value in {
            "name": "gdp", "url": api.url("/page"), "table": "gdp", "schedule": "daily",
            "response.dataPath": "data.items", "response.fields": COLUMNS,
        }.items():  # fmt: skip
            page.locator(f'[name="{name}"]').fill(value)
        page.get_by_role("button", name="Test: fetch one page").click()
        expect(page.get_by_role("cell", name="record 9", exact=True)).to_be_visible()
        assert fetching.get("/sources")["sources"] == [], "nothing is stored by trying"
        page.get_by_role("button", name="Create source").click()
        expect(page.get_by_role("heading", name="gdp", exact=True)).to_be_visible()
        assert [each["name"] for each in fetching.get("/sources")["sources"]] == ["gdp"]
