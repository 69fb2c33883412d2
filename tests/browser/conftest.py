"""A browser, a server, and pages that tell whatever goes wrong in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests import waiting
from tests.browser import chromium
from tests.browser.place import Place, started

HERE = Path(__file__).parent
PATIENCE = 1000 * waiting.PATIENCE  # milliseconds that a page has
expect.set_options(timeout=PATIENCE)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of pytest-xdist drives the one browser; the quick tests do without it."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Of the package, not the session: as long as it lives its loop is this thread's, and no other can run."""
    program = chromium.find()
    if program is None:
        (pytest.fail if chromium.is_needed() else pytest.skip)(chromium.MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, chromium_sandbox=False, args=chromium.ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on SQLite, for all tests of a module."""
    folder = tmp_path_factory.mktemp("place")
    server = started(folder, f"sqlite:///{folder}/ostinato.db")
    yield server
    server.terminate()
    assert "Traceback" not in server.log, server.log


class Troubles(list[str]):
    """What a page complains about: errors of scripts, of the console, and everything that the policy refused."""

    def listen(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(f"error: {error}"))
        page.on("console", lambda line: self.append(f"console: {line.text}") if line.type == "error" else None)
        page.on("dialog", lambda dialog: (self.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "response",
            lambda answer: self.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None,
        )


Open = Callable[..., Page]


@pytest.fixture
def troubles() -> Troubles:
    """What is expected of a test's pages: nothing. A test that provokes errors clears it."""
    return Troubles()


@pytest.fixture
def open_page(browser: Browser, troubles: Troubles) -> Iterator[Open]:
    """Open a page in a context of its own (cookies); options are those of `new_context`."""
    contexts: list[BrowserContext] = []

    def open_page(address: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB"} | options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        troubles.listen(page)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(open_page: Open, place: Place) -> Page:
    """The dashboard of the module's server."""
    return open_page(place.address + "/")
