"""`make screenshots`: every page at 1280 and 390 pixels, of a shop that has been busy for two days.

Two days are simulated into a database, a real server opens it, and a real browser looks. Into docs/images/.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from ostinato.clock import SystemClock
from ostinato.testing import simulate
from tests.browser import chromium, shop
from tests.browser.place import Place
from tests.browser.small_site import LIGHTHOUSES, a_small_site
from tests.played_api import PlayedApi
from tests.waiting import eventually

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZES = {1280: 900, 390: 844}
NODES = [
    {"id": "evening", "type": "trigger_schedule"},
    {"id": "by_hand", "type": "trigger_manual"},
    {"id": "orders_eu", "task": "collect_orders", "args": {"region": "eu"}, "after": ["evening", "by_hand"]},
    {"id": "orders_us", "task": "collect_orders", "args": {"region": "us"}, "after": ["evening", "by_hand"]},
    {"id": "invoices", "task": "make_invoice", "args": {"count": {"$ref": "orders_eu.result.count"}},
     "after": ["orders_eu", "orders_us"]},
    {"id": "tell", "task": "tell_team", "args": {"text": "done"}, "after": ["invoices"]},
    {"id": "complain", "task": "tell_team", "args": {"text": "few"}, "after": ["invoices"],
     "when": "orders_eu.result.count < 50"},
]  # fmt: skip


class Shop(Place):
    """The server over the history."""

    APP = Path(shop.__file__).read_text()


def played(file: Path) -> None:
    """Two days of the shop, up to now."""
    now = SystemClock().now()
    with simulate(shop.app, start=now - timedelta(days=2), workers=2, seed=7) as simulation:
        simulation.advance(timedelta(days=1))
        simulation.crash("w2")
        simulation.worker("w3")
        simulation.advance(timedelta(hours=24))
        source = simulation.app.parts.settings.database_url.removeprefix("sqlite:///")
        with (
            contextlib.closing(sqlite3.connect(source)) as old,
            contextlib.closing(sqlite3.connect(file)) as new,
        ):
            old.backup(new)


def filled(place: Shop, api: PlayedApi) -> dict[str, str]:
    """What is made at the server itself; where the pages with an id are."""

    def post(path: str, body: Any) -> Any:
        code, answer = place("POST", f"/api/v1{path}", body)
        assert code in (200, 201, 202), answer
        return answer

    workflow = post("/workflows", {"name": "daily invoices", "description": "Collects the orders of the day and "
                                   "writes their invoices.", "nodes": NODES})  # fmt: skip
    runs = [post(f"/workflows/{workflow['id']}/run", {"payload": {}})["job_id"] for _ in range(3)]
    fields = [
        {"source": "id", "target": "number", "type": "integer"},
        {"source": "day", "type": "date"},
        {"source": "name", "target": "title"},
        {"source": "value", "target": "amount", "type": "number"},
    ]
    paging = {"type": "page", "limit": 10, "hasMorePath": "more"}
    for name, path in (("exchange_rates", "/page"), ("suppliers", "/page"), ("weather", "/nowhere")):
        post("/sources", {
            "name": name, "url": api.url(path), "table": name, "schedule": "hourly", "pagination": paging,
            "response": {"dataPath": "data.items", "fields": fields},
        })  # fmt: skip
    for domain, limit, period in (("api.example.org", 60, "1m"), ("rates.example.com", 5, "1s")):
        post("/providers", {"domain": domain, "limit": limit, "period": period})
    post("/keys", {"name": "build server", "role": "operator", "expires_in": "90d"})
    post("/keys", {"name": "wall display", "role": "viewer"})
    post("/jobs/send_reminders/pause", None)
    post("/jobs/sync_warehouse/run", {"args": {"pages": 400}})
    with a_small_site(LIGHTHOUSES) as url:
        crawl = post("/jobs", {"task": "crawl", "name": "lighthouses", "args": {"url": url, "delay": 0}})
        eventually(lambda: place.get(f"/jobs/{crawl['id']}")["status"] == "completed")
    (page,) = place.get("/pages?q=keeper+wick")["pages"]
    job = place.get("/jobs/fetch_prices")
    eventually(lambda: place.get("/sources/exchange_rates")["completed"])
    eventually(lambda: all(place.get(f"/jobs/{run}")["status"] == "completed" for run in runs))
    eventually(lambda: place.get("/jobs/sync_warehouse")["status"] == "running")
    running = place.get("/executions?status=running&task=sync_warehouse")["executions"][0]["id"]
    graph = place.get(f"/jobs/{runs[0]}/executions")["executions"][0]["id"]
    return {
        "overview": "/", "jobs": "/jobs", "job": f"/jobs/{job['id']}", "job-edit": f"/jobs/{job['id']}/edit",
        "job-new": "/jobs/new?task=fetch_prices&schedule=0+9+*+*+mon-fri&timezone=Europe/Paris",
        "executions": "/executions", "execution": f"/executions/{running}", "workflow-run": f"/executions/{graph}",
        "calendar": "/calendar", "sources": "/sources", "source": "/sources/exchange_rates",
        "source-new": "/sources/new", "pages": "/pages?q=lamp", "page": f"/pages/{page['id']}",
        "workflows": "/workflows", "workflow": f"/workflows/{workflow['id']}", "templates": "/templates",
        "providers": "/providers", "workers": "/workers", "events": "/events", "settings": "/settings",
    }  # fmt: skip


def shoot(page: Page, place: Shop, addresses: dict[str, str]) -> None:
    for name, path in addresses.items():
        page.goto(place.address + path)
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=IMAGES / f"{name}-{width}.png", animations="disabled")


def main() -> int:
    program = chromium.find()
    if program is None:
        sys.stderr.write(f"{chromium.MISSING}\n")
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, PlayedApi() as api, sync_playwright() as playwright:
        file = Path(folder) / "ostinato.db"
        played(file)
        place = Shop(Path(folder), f"sqlite:///{file}", OSTINATO_ALLOW_PRIVATE_ADDRESSES="on", OSTINATO_RUN_LOG="off")
        try:
            eventually(place.ready)
            addresses = filled(place, api)
            browser = playwright.chromium.launch(
                executable_path=program, chromium_sandbox=False, args=chromium.ARGUMENTS
            )
            context = browser.new_context(timezone_id="Europe/Paris", locale="en-GB")
            shoot(context.new_page(), place, addresses)
            browser.close()
        finally:
            place.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
