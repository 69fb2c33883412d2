"""The example `fastapi_shop` in the browser, with the dashboard under `/ops`: pages load, forms work, log-ins hold,
pages are live, and the server stops although a page is open."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ostinato import Ostinato
from ostinato.core.access import Role
from tests.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_shop" / "shop.py"
SECRET = "a secret of at least 32 bytes, for tests"


class Shop:
    """uvicorn with the shop, on a free port."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        shutil.copy(EXAMPLE, folder)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OSTINATO_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "shop:app", "--port", "0", "--no-access-log"],
            cwd=folder, env=clean | environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = ""
        while not (found := re.search(r"running on (http://\S+)", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.address = found[1]

    def order(self, to: str) -> None:
        body = f'{{"to": "{to}"}}'.encode()
        sent = urllib.request.Request(f"{self.address}/orders", body, {"content-type": "application/json"})
        with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
            assert answer.status == 202

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.said += self.process.communicate(timeout=PATIENCE)[1]
        assert "Application shutdown complete" in self.said, self.said


@contextmanager
def served(folder: Path, **environment: str) -> Iterator[Shop]:
    shop = Shop(folder, **environment)
    try:
        yield shop
    finally:
        if shop.process.poll() is None:
            shop.process.kill()
            shop.process.communicate()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with served(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


def test_every_page_of_the_menu_loads_with_its_style_and_its_links(shop, open_page):
    page = open_page(f"{shop.address}/ops")
    assert page.url == f"{shop.address}/ops/"
    names = page.locator("nav[aria-label=Main] a").all_inner_texts()
    assert len(names) >= 10
    for name in names:
        page.locator("nav[aria-label=Main]").get_by_role("link", name=name, exact=True).click()
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)
        assert page.url.startswith(f"{shop.address}/ops/")
        assert page.evaluate("getComputedStyle(document.body).fontFamily") != "serif"
        hrefs = page.eval_on_selector_all("[href], [action], [src]", "all => all.map(each => each.href || each.src)")
        strange = [each for each in hrefs if isinstance(each, str) and not each.startswith(f"{shop.address}/ops/")]
        assert strange == []


def test_a_job_is_made_and_steered_and_the_preview_follows(shop, open_page):
    page = open_page(f"{shop.address}/ops/jobs/new")
    page.locator('[name="task"]').fill("confirm")
    expect(page.locator('[name="arg:order"]')).to_be_visible()
    page.locator('[name="arg:order"]').fill("1")
    page.locator('[name="schedule"]').fill("0 9 * * mon-fri")
    expect(page.locator("#preview")).to_contain_text("At 09:00 on weekdays")
    page.get_by_role("button", name="Create job").click()
    page.wait_for_url(re.compile(r"/ops/jobs/[0-9a-f-]{36}$"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_contain_text("resumed")
    assert page.url.startswith(f"{shop.address}/ops/jobs/")


def test_a_page_is_live_and_its_zone_stays_under_the_prefix(shop, open_page):
    shop.order("ann")
    page = open_page(f"{shop.address}/ops/executions", timezone_id="Asia/Tokyo")
    expect(page.locator("[data-live-sign]")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    shop.order("bob")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("footer")).to_contain_text("Asia/Tokyo")
    assert {cookie["path"] for cookie in page.context.cookies()} == {"/ops/"}


def test_the_reference_of_the_api_sends_requests_to_the_prefix(shop, open_page):
    page = open_page(f"{shop.address}/ops/docs")
    expect(page.locator(".title").first).to_contain_text("Ostinato")
    expect(page.locator(".servers select")).to_have_value("/ops")


def test_the_server_stops_in_order_although_a_page_is_open(tmp_path, open_page, troubles):
    with served(tmp_path) as shop:
        page = open_page(f"{shop.address}/ops/")
        expect(page.locator("[data-live-sign]")).to_be_visible()
        shop.stop()
        page.close()  # it tries to connect again
    troubles.clear()


def test_a_log_in_leads_back_to_the_page_and_ends_there(tmp_path, open_page, troubles):
    with served(tmp_path, OSTINATO_AUTH_SECRET=SECRET) as shop:
        app = Ostinato("shop", database_url=f"sqlite:///{tmp_path}/shop.db")
        with closing(app):
            key = app.scheduler.keys.create("vera", Role.VIEWER).text
        page = open_page(f"{shop.address}/ops/executions?state=failed")
        assert "/ops/login?next=" in page.url
        page.get_by_label("Token or API key").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        troubles.clear()  # the browser complains of the 401
        page.get_by_label("Token or API key").fill(key)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{shop.address}/ops/executions?state=failed")
        expect(page.locator(".who")).to_contain_text("vera")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{shop.address}/ops/login")
        page.goto(f"{shop.address}/ops/jobs")
        assert "/ops/login" in page.url
        troubles.clear()
