"""Every page of the site with hostile words in every field, in a real browser; and every page for everybody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.hostile import HOSTILE, HostilePlace, pages
from tests.waiting import eventually

REFUSED = (
    "document.addEventListener('securitypolicyviolation', "
    "(refused) => console.error('policy: ' + refused.violatedDirective));"
)
RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
LOOKS = ((1280, "light"), (390, "dark"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostilePlace]:
    folder = tmp_path_factory.mktemp("hostile")
    place = HostilePlace(folder, f"sqlite:///{folder}/ostinato.db", OSTINATO_ALLOW_PRIVATE_ADDRESSES="on")
    eventually(place.ready)
    yield place
    place.kill()  # something still runs there


@pytest.fixture(scope="module")
def everywhere(place: HostilePlace) -> list[str]:
    return [*pages(place.fill()), *place.further]


def complaints(page: Page) -> list[str]:
    """What axe finds that keeps somebody from using the page."""
    found = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{each['id']}: {each['help']} {[node['html'][:160] for node in each['nodes']][:3]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def test_nothing_that_anybody_wrote_runs_and_every_page_is_for_everybody(place, everywhere, open_page, troubles):
    """One visit to each page does for both: no script runs, the policy has nothing to refuse, axe finds nothing."""
    page = open_page(place.address + "/login")
    page.add_init_script(REFUSED)
    found: dict[str, list[str]] = {}
    for path in everywhere:
        page.goto(place.address + path)
        assert page.evaluate("window.hacked") is None, path
        assert page.evaluate("document.querySelectorAll('img, script:not([src]), [onerror], style').length") == 0, path
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            wide = page.evaluate("document.documentElement.scrollWidth")
            told = complaints(page) + ([f"is {wide} pixels wide"] if wide > width else [])
            if told:
                found[f"{path} at {width}, {scheme}"] = told
        assert troubles == [], path
    assert found == {}
    assert {job["name"] for job in place.get("/jobs")["jobs"]} >= {HOSTILE}
    page.evaluate("document.body.append(document.createElement('button'))")
    assert complaints(page), "axe sees nothing at all"


def test_forms_that_come_back_with_hostile_words_show_them_as_text(place, everywhere, open_page, troubles):
    page = open_page(place.address + "/jobs/new")
    page.add_init_script(REFUSED)
    for path, button in (
        ("/jobs/new", "Create job"),
        ("/workflows/new", "Create workflow"),
        ("/sources/new", "Create source"),
        ("/providers", "Create provider"),
    ):
        page.goto(place.address + path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for line in page.locator("main form input:not([type=hidden]):not([type=checkbox]), main form textarea").all():
            if line.is_visible():
                line.fill(HOSTILE)
        page.get_by_role("button", name=button).click()
        page.wait_for_load_state()
        assert page.locator(".trouble").count() > 0, path
        assert page.evaluate("window.hacked") is None, path
        assert all("422" in each for each in troubles), troubles
        troubles.clear()
