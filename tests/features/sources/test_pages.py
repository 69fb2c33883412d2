"""Sources in the dashboard: the test of a definition, edit with a diff, and the display of records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from ostinato import Ostinato
from ostinato.core.access import Role
from ostinato.core.addresses import EVERYWHERE
from ostinato.core.builtin import Permits
from ostinato.features.sources.service import SourceContext, SourceService
from tests.app.conftest import during
from tests.dashboard.conftest import Visitor
from tests.played_api import PlayedApi
from tests.waiting import eventually

HERE = SourceContext(permits=Permits(egress=EVERYWHERE))
NEW = "/sources/new"
COLUMNS = "- {source: id, target: number, type: integer}\n- {source: day, type: date}\n- {source: name}"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    with PlayedApi() as api:
        yield api


@pytest.fixture
def visitor(sqlite_url: str) -> Iterator[Visitor]:
    app = Ostinato("shop", database_url=sqlite_url, allow_private_addresses=True)
    app.open(upgrade=True)
    yield Visitor(app)
    app.close()


@pytest.fixture
def good(api: PlayedApi) -> dict[str, str]:
    return {
        "name": "gdp", "url": api.url("/page"), "table": "gdp", "schedule": "daily", "status": "active",
        "response.dataPath": "data.items", "response.fields": COLUMNS, "pagination.type": "page",
        "pagination.limit": "10", "pagination.hasMorePath": "more", "params": "a=1\nb=x y",
        "headers": "Accept: application/json",
    }  # fmt: skip


def make(visitor: Visitor, fields: dict[str, str]) -> str:
    return visitor.send(NEW, on=NEW, **fields, do="save").headers["location"]


def test_the_first_page_is_shown_as_a_table_before_anything_is_saved(visitor, good, api):
    page = unescape(visitor.send(NEW, 200, on=NEW, **good, do="test").text)
    assert "10 records, 10 rows" in page
    assert "there is a next page" in page
    assert "<td>record 9</td>" in page
    assert 'name="response.dataPath"' in page
    assert api.asked("/page")[0] == {"a": "1", "b": "x y", "page": "1", "limit": "10"}
    assert visitor.app.scheduler.part(SourceService).list() == []


def test_records_that_cannot_be_mapped_are_told_with_the_reason(visitor, good):
    wrong = good | {"response.fields": COLUMNS + "\n- {source: name, target: v, type: integer}"}
    page = unescape(visitor.send(NEW, 200, on=NEW, **wrong, do="test").text)
    assert "10 rejected" in page
    assert "<caption>Rejected</caption>" in page


def test_what_the_other_side_says_is_told_and_nothing_typed_is_lost(visitor, good, api):
    page = unescape(visitor.send(NEW, 422, on=NEW, **good | {"url": api.url("/nowhere")}, do="test").text)
    assert "404" in page
    assert 'value="data.items"' in page
    assert "a=1\nb=x y" in page


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("name", "no good", "letters, digits"),
        ("url", "ftp://x", "http"),
        ("schedule", "often", "not a schedule"),
        ("response.fields", "- {source: id, type: int}", "response.fields[0].type"),
        ("response.fields", "- {source", "is not YAML"),
        ("response.unique", "nothing", "not a target column"),
        ("pagination.limit", "many", "whole number"),
        ("execution.timeout", "long", "long"),
        ("params", "nonsense", "name=value"),
        ("headers", "Authorization: secret", "write it as auth"),
        ("limits.maxRejected", "many", "maxRejected"),
    ],
)
def test_a_mistake_is_told_beside_its_field(visitor, good, field, text, told):
    page = unescape(visitor.send(NEW, 422, on=NEW, **good | {field: text}, do="save").text)
    beside = re.search(rf'id="w-{re.escape(field)}">(.*?)</p>', page, re.DOTALL)
    assert beside, re.findall(r'class="trouble[^>]*>(.*?)</p>', page, re.DOTALL)
    assert told in beside[1]


def test_a_secret_is_named_and_never_kept(visitor, good):
    auth = {"auth.type": "bearer", "auth.token": "abc123"}
    page = unescape(visitor.send(NEW, 422, on=NEW, **good | auth, do="save").text)
    assert re.search(r'id="w-auth.token">[^<]*env:SECRET_NAME', page)
    where = make(visitor, good | auth | {"auth.token": "env:SECRET_TOKEN"})
    assert "env:SECRET_TOKEN" in visitor.see(where)


def test_an_edit_shows_what_changes_and_leaves_the_rest_as_it_was_written(visitor, good):
    where = make(visitor, good)
    written = visitor.app.scheduler.part(SourceService).get("gdp").written
    changed = good | {"schedule": "6h", "pagination.limit": "5", "params": ""}
    page = unescape(visitor.send(f"{where}/edit", 200, on=NEW, **changed, do="review").text)
    assert re.findall(r"<code>([\w.]+)</code></td><td data-label=\"before\">", page) == [
        "schedule",
        "pagination.limit",
        "params",
    ]
    reviewed = re.search(r'name="reviewed" value="([^"]*)"', page)[1]
    visitor.send(f"{where}/edit", on=NEW, **changed, do="save", reviewed=reviewed)
    now = visitor.app.scheduler.part(SourceService).get("gdp").written
    assert now["schedule"] == "6h"
    assert now["pagination"] == {**written["pagination"], "limit": 5}
    assert "params" not in now


def test_what_the_form_cannot_show_stays(visitor, api):
    definition = {
        "name": "old", "url": api.url("/page"), "table": "t", "schedule": {"every": "6h"},
        "response": {"dataPath": "data.items", "fields": [{"source": "name"}]}, "offsetPagination": {"pageParam": "p"},
    }  # fmt: skip
    assert visitor.ask("/api/v1/sources", "POST", json=definition).status_code == 201
    fields = {"url": api.url("/page"), "table": "t", "schedule": '{\n  "every": "6h"\n}', "owner": "ann"}
    page = visitor.send("/sources/old/edit", 200, on=NEW, **fields, do="review").text
    reviewed = re.search(r'name="reviewed" value="([^"]*)"', page)[1]
    visitor.send("/sources/old/edit", on=NEW, **fields, do="save", reviewed=reviewed)
    assert visitor.app.scheduler.part(SourceService).get("old").written == {**definition, "owner": "ann"}


def test_records_runs_and_the_retry_budget_are_shown(visitor, good):
    where = make(visitor, good)

    async def until_fetched() -> None:
        import asyncio

        await asyncio.to_thread(
            eventually, lambda: visitor.app.scheduler.part(SourceService).get("gdp").job.facts.completed
        )

    during(visitor.app, until_fetched)
    page = visitor.see(where)
    assert "record 24" in page
    assert "0 of 5" in page
    listed = visitor.see("/sources")
    assert "gdp" in listed
    assert "every day" in listed
    answer = visitor.send(f"{where}/run", on=where)
    assert "The source runs" in visitor.follow(answer)
    assert "with 25 rows" in visitor.follow(visitor.send(f"{where}/delete", on=where, with_data="1"))


def test_what_comes_from_elsewhere_is_text(visitor, good, api):
    api.bodies["/evil"] = {"data": {"items": [{"id": 1, "day": "2026-01-01", "name": HOSTILE}]}}
    page = visitor.send(NEW, 200, on=NEW, **good | {"url": api.url("/evil"), "description": HOSTILE}, do="test").text
    assert "&lt;img" in page
    assert "<img" not in page


def test_a_viewer_sees_sources_and_no_buttons(stranger):
    stranger.log_in(Role.VIEWER)
    assert "No sources yet" in stranger.see("/sources")
    assert "New source" not in stranger.see("/sources")
    assert stranger.see(NEW, 403)


def test_the_changes_of_each_run_and_the_state_are_shown(visitor, good, api):
    known = {"write": "{mode: upsert, newest: number}", "response.unique": "number"}
    where = make(visitor, good | known)
    sources = visitor.app.scheduler.part(SourceService)
    assert sources.get("gdp").source.write.newest == "number"
    assert "mode: upsert" in unescape(visitor.see(f"{where}/edit"))

    async def until_run_twice() -> None:
        import asyncio

        def run_twice() -> None:
            eventually(lambda: sources.get("gdp").job.facts.completed == 1)
            api.records = 30
            sources.run("gdp")
            eventually(lambda: sources.get("gdp").job.facts.completed == 2)

        await asyncio.to_thread(run_twice)

    during(visitor.app, until_run_twice)
    page = unescape(visitor.see(where))
    assert "#1: 25 inserted, 0 updated, 0 deleted" in page
    assert "#2: 5 inserted, 0 updated, 0 deleted" in page
    assert "<dt>Writing</dt><dd>upsert</dd>" in page
    sources.edit("gdp", {"incremental": {"cursor": "day", "startParam": "since"}}, HERE)
    sources.set_state("gdp", "2026-01-09")
    assert "<dt>State</dt><dd>2026-01-09</dd>" in visitor.see(where)
