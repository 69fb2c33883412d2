"""The API's own page, in the browser."""

from __future__ import annotations

from playwright.sync_api import expect


def test_the_reference_of_the_api_is_there_without_a_word_from_elsewhere(place, open_page):
    page = open_page(place.address + "/docs")
    expect(page.locator(".title").first).to_contain_text("Ostinato")
