"""Forms in the browser: a job is made and edited by somebody who types, with and without scripts, and by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.place import Place

PREVIEW, ARGUMENTS = "#preview", "#arguments"


def field(page: Page, name: str):
    return page.locator(f'[name="{name}"]')


def test_a_job_is_made_while_the_schedule_explains_itself(place: Place, open_page):
    page = open_page(place.address + "/jobs/new", timezone_id="Europe/Paris")
    field(page, "task").fill("greet")
    expect(field(page, "arg:times")).to_be_visible()
    field(page, "arg:name").fill("Ann")
    field(page, "arg:times").fill("2")
    field(page, "schedule").fill("61 * * * *")
    expect(page.locator(PREVIEW)).to_contain_text("61")
    expect(field(page, "schedule")).to_have_attribute("aria-invalid", "true")
    field(page, "schedule").fill("0 9 * * mon-fri")
    expect(page.locator(PREVIEW)).to_contain_text("At 09:00 on weekdays, UTC")
    expect(field(page, "schedule")).not_to_have_attribute("aria-invalid", "true")
    field(page, "timezone").fill("Asia/Tokyo")
    expect(page.locator(PREVIEW)).to_contain_text("09:00:00 Asia/Tokyo")
    expect(page.locator(f"{PREVIEW} li")).to_have_count(5)
    field(page, "name").fill("Morning greeting")
    page.get_by_role("button", name="Create job").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    job = place.get(f"/jobs/{page.url.rsplit('/', 1)[1]}")
    assert job["schedule"] == {"cron": "0 9 * * mon-fri", "timezone": "Asia/Tokyo"}
    assert job["args"] == {"name": "Ann", "times": 2}


def test_an_edit_shows_what_will_change_before_it_is_saved(place: Place, open_page, troubles):
    job = place.job(task="greet", args={"name": "Ann"}, schedule="1h", name="Greeter")
    page = open_page(f"{place.address}/jobs/{job['id']}/edit")
    field(page, "max_retries").fill("many")
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator("#w-max_retries")).to_contain_text("valid integer")
    expect(field(page, "max_retries")).to_be_focused()
    troubles.clear()  # the console tells of 422
    field(page, "max_retries").fill("7")
    field(page, "schedule").fill("2h")
    page.get_by_role("button", name="Review changes").click()
    review = page.locator("#review")
    expect(review).to_contain_text("max_retries")
    expect(review.locator("ins")).to_have_text(["every: 2h", "7"])
    review.get_by_role("button", name="Save changes").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    saved = place.get(f"/jobs/{job['id']}")
    assert (saved["max_retries"], saved["schedule"]) == (7, {"every": "2h"})


def test_without_scripts_there_are_buttons_for_what_scripts_do(place: Place, open_page):
    page = open_page(place.address + "/jobs/new", java_script_enabled=False)
    field(page, "task").fill("greet")
    page.get_by_role("button", name="Show arguments").click()
    field(page, "arg:name").fill("Ann")
    field(page, "schedule").fill("@daily")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(PREVIEW)).to_contain_text("At 00:00 every day, UTC")
    expect(field(page, "arg:name")).to_have_value("Ann")


def test_every_field_of_the_form_is_reached_by_keyboard_and_shows_where_one_is(place: Place, open_page):
    page = open_page(place.address + "/jobs/new?task=greet")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    wanted = page.evaluate(
        "[...document.querySelectorAll('form.long [name]:not([type=hidden])')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.name)"
    )
    assert len(wanted) > 40
    reached = []
    for _ in range(len(wanted) + 40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.name, getComputedStyle(document.activeElement).outlineStyle]"
        )
        if name:
            reached.append(name)
            assert outline != "none", name
    assert set(wanted) <= set(reached)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_makes_the_page_wider_than_the_screen(place: Place, open_page, width):
    page = open_page(place.address + "/jobs/new?task=greet", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
