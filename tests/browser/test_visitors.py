"""Who comes in with which credential sees what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import expect

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.core.model import Definition
from ostinato.core.schedule import Every
from tests.browser.place import Place, started

SECRET = "a secret of at least 32 bytes, for tests"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server that asks for a credential."""
    folder = tmp_path_factory.mktemp("guarded")
    server = started(folder, f"sqlite:///{folder}/ostinato.db", OSTINATO_AUTH_SECRET=SECRET)
    yield server
    server.terminate()


@pytest.fixture(scope="module")
def credentials(guarded: Place) -> dict[str, str]:
    """A key for each role, and a job to look at."""
    app = Ostinato("seed", database_url=f"sqlite:///{guarded.folder}/ostinato.db")
    with closing(app):
        app.jobs.make(Definition("greet", Every.of("1h"), name="guarded", app="shop"), allow_unknown=True)
        names = {Role.VIEWER: "vera", Role.OPERATOR: "olga"}
        return {role.value: app.scheduler.keys.create(name, role).text for role, name in names.items()}


def test_a_viewer_logs_in_sees_no_buttons_and_logs_out(guarded, open_page, credentials, troubles):
    page = open_page(f"{guarded.address}/jobs")
    page.get_by_label("Token or API key").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    troubles.clear()  # the browser complains of the 401
    page.get_by_label("Token or API key").fill(credentials["viewer"])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.get_by_role("link", name="guarded").click()
    expect(page.locator("[data-live=state]")).to_contain_text("scheduled")
    assert page.get_by_role("button").all_inner_texts() == ["Log out"]
    assert page.locator("summary.button").count() == 0
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out.")).to_be_visible()
    page.goto(f"{guarded.address}/jobs")
    expect(page.get_by_label("Token or API key")).to_be_visible()


def test_an_operator_pauses_and_is_named_in_the_events(guarded, open_page, credentials):
    page = open_page(f"{guarded.address}/login?next=/jobs")
    page.get_by_label("Token or API key").fill(credentials["operator"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="guarded").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-live=state]")).to_contain_text("paused")
    expect(page.locator("[data-live=events]")).to_contain_text("olga")
    assert page.locator("summary", has_text="Delete…").count() == 0


def test_the_first_page_of_a_visit_has_times_and_their_zone_of_the_browser(guarded, open_page, credentials):
    page = open_page(f"{guarded.address}/login?next=/jobs", timezone_id="Asia/Tokyo")
    expect(page.locator("footer")).to_contain_text("Times in Asia/Tokyo")
    assert page.locator("body").get_attribute("data-zone") == "Asia/Tokyo"
