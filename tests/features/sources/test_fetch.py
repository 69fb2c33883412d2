"""The task `fetch` with a real server: all kinds of paging and of failures, on both databases."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from ostinato import Ostinato
from ostinato.core.addresses import EVERYWHERE
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid
from ostinato.features.sources.service import SourceContext, SourceService
from tests.played_api import PlayedApi, a_record, a_source_of
from tests.waiting import PATIENCE

HERE = SourceContext(permits=Permits(egress=EVERYWHERE))
BY_PAGE = {"pageParam": "page", "limitParam": "limit", "limit": 10, "hasMorePath": "more"}
BY_CURSOR = {"cursorParam": "cursor", "nextCursorPath": "paging.next"}


@pytest.fixture
def app(database_url):
    """An app on the test's database, without tables of users."""
    app = Ostinato("", database_url=database_url, poll_interval="1s", allow_private_addresses=True, concurrency=4)
    parts = app.open(upgrade=True)
    database = parts.store.database
    with database.write() as tx:
        for table in ("things", "others"):
            tx.run(database.dialect.statement(f"DROP TABLE IF EXISTS {table}"))
    yield app
    app.close()


@pytest.fixture
def api():
    with PlayedApi() as api:
        yield api


def run_once(app, *definitions, runs=1):
    """Run each source `runs` times, and return the last execution."""

    async def until_done():
        async with app.running(), asyncio.timeout(PATIENCE):
            ended = []
            for definition in definitions:
                made = await asyncio.to_thread(app.scheduler.part(SourceService).create, definition, HERE)
                for number in range(1, runs + 1):
                    if number > 1:
                        await asyncio.to_thread(app.scheduler.part(SourceService).run, made.name)
                    ended.append(await _finished(app, made.job.id, number))
            return ended[-1]

    return asyncio.run(until_done())


async def _finished(app, job_id, number):
    """Wait for the end of the execution of that number; each settle notifies."""
    loop, rung = asyncio.get_running_loop(), asyncio.Event()
    listener = app.parts.store.database.listen(lambda: loop.call_soon_threadsafe(rung.set))
    try:
        while True:
            rung.clear()
            for run in await asyncio.to_thread(app.executions.list, job=job_id, limit=5):
                if run.execution_number == number and run.outcome is not None:
                    return run
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), 0.2)
    finally:
        listener.close()


def numbers(app, name="things"):
    return sorted(row["number"] for row in app.scheduler.part(SourceService).records(name, 1000))


@pytest.mark.parametrize(
    "how",
    [
        {"path": "/page", "data": "data.items", "offsetPagination": BY_PAGE},
        {"path": "/page", "data": "data.items", "pagination": {"type": "page", "limit": 10}},
        {"path": "/offset", "pagination": {"type": "offset", "limit": 10}},
        {"path": "/cursor", "data": "items", "cursorPagination": BY_CURSOR},
        {"path": "/link", "pagination": {"type": "link_header"}},
        {"path": "/url", "data": "items", "pagination": {"type": "next_url", "nextUrlPath": "next"}},
    ],
    ids=["offsetPagination", "page", "offset", "cursorPagination", "link_header", "next_url"],
)  # fmt: skip
def test_every_page_arrives_once_whatever_the_pagination(app, api, how):
    how = dict(how)
    path, data = how.pop("path"), how.pop("data", ".")
    ended = run_once(app, a_source_of(api.url(path), path=data, **how), runs=2)
    assert numbers(app) == list(range(25))
    assert ended.outcome == "completed", ended.error
    assert ended.result["pages"] == ended.result["requests"] == 3
    assert (ended.items_crawled, ended.items_indexed, ended.result["duplicates"]) == (25, 0, 25)
    (first, *_) = app.scheduler.part(SourceService).records("things", 1)
    assert (first["amount"], first["title"], first["source_name"]) == (24.5, "record 24", "things")


def test_one_page_without_pagination_and_packed(app, api):
    ended = run_once(app, a_source_of(api.url("/gzip")))
    assert (ended.items_crawled, ended.items_indexed) == (5, 5)
    assert numbers(app) == [0, 1, 2, 3, 4]


def test_params_headers_and_auth_go_with_each_page(app, api, monkeypatch):
    monkeypatch.setenv("SECRET_THINGS_TOKEN", "s3cret")
    definition = a_source_of(
        api.url("/page"), path="data.items",
        params=[{"name": "series", "value": "a b&c"}, {"name": "key", "value": 7}],
        headers={"Accept": "application/vnd.things+json"},
        auth={"type": "bearer", "token": "env:SECRET_THINGS_TOKEN"},
        pagination={"type": "page", "limit": 10},
    )  # fmt: skip
    ended = run_once(app, definition)
    assert ended.outcome == "completed", ended.error
    assert [query["series"] for query in api.asked("/page")] == ["a b&c"] * 3
    assert [query["key"] for query in api.asked("/page")] == ["7"] * 3
    assert {headers["authorization"] for headers in api.headers} == {"Bearer s3cret"}
    assert {headers["accept"] for headers in api.headers} == {"application/vnd.things+json"}
    assert "s3cret" not in str(app.scheduler.part(SourceService).get("things"))


@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("/500", "TransientFailure", ["Page 1", "500", "out of order"]),
        ("/429", "AskedToWait", ["Page 1", "429", "slow down", "2m"]),
        ("/404", "PermanentFailure", ["Page 1", "404", "no such series"]),
        ("/reset", "TransientFailure", ["Page 1"]),
        ("/broken", "PermanentFailure", ["Page 1", "JSON", '[{"id": 1}']),
        ("/html", "PermanentFailure", ["Page 1", "JSON", "Sign in"]),
        ("/to-metadata", "PermanentFailure", ["Page 1", "link-local"]),
        ("/bomb", "PermanentFailure", ["Page 1", "limits.maxBytes"]),
        ("/stamped/nobody", "PermanentFailure", ["Page 1", "404"]),
    ],
)
def test_what_goes_wrong_is_a_failure_with_its_details(app, api, path, kind, said):
    ended = run_once(app, a_source_of(api.url(path), limits={"maxBytes": "10MB"}))
    assert (ended.outcome, ended.error_kind) == ("failed", kind), ended.error
    for word in said:
        assert word in ended.error
    assert ended.traceback is None
    view = app.scheduler.part(SourceService).get("things")
    assert view.retry_count == 1
    assert view.period_start is not None
    assert view.next_retry_at > view.now + timedelta(seconds=30)
    if kind == "AskedToWait":
        assert view.next_retry_at > view.now + timedelta(seconds=100), "Retry-After is honoured"


@pytest.mark.parametrize(
    ("path", "data", "paging"),
    [
        (
            "/same-cursor",
            "items",
            {"type": "cursor", "cursorParam": "cursor", "nextCursorPath": "paging.next"},
        ),
        ("/same-page", "data.items", {"type": "page", "hasMorePath": "more"}),
    ],
)
def test_pagination_that_does_not_advance_is_a_failure(app, api, path, data, paging):
    ended = run_once(app, a_source_of(api.url(path), path=data, pagination=paging))
    assert ended.error_kind == "PermanentFailure"
    assert "pagination does not advance" in ended.error
    assert len(api.requests) <= 3
    assert len(numbers(app)) == ended.items_indexed > 0, "what came before stays"
    assert ended.counters["pages"] > 0
    assert ended.counters["bytes"] > 0


def test_a_missing_data_path_is_named(app, api):
    ended = run_once(app, a_source_of(api.url("/page"), path="data.rows"))
    assert "response.dataPath: no records at 'data.rows'" in ended.error


def test_a_list_that_is_null_or_vanishes_later_is_no_failure(app, api):
    bodies = [{"items": None}, {"items": [a_record(1)]}, {"total": 0}]
    api.bodies["/vanishes"] = lambda handler: handler.answer(bodies.pop(0))
    ended = run_once(app, a_source_of(api.url("/vanishes"), path="items"), runs=3)
    assert (ended.outcome, ended.items_crawled) == ("completed", 0), ended.error
    assert numbers(app) == [1]


def test_odata_is_paged_by_the_name_of_its_annotation(app, api):
    api.bodies["/odata"] = {"value": api.slice(0, 3), "@odata.nextLink": "/odata-2"}
    api.bodies["/odata-2"] = {"value": api.slice(3, 2)}
    paging = {"type": "next_url", "nextUrlPath": "@odata.nextLink"}
    ended = run_once(app, a_source_of(api.url("/odata"), path="value", pagination=paging))
    assert (ended.outcome, ended.result["pages"]) == ("completed", 2), ended.error
    assert numbers(app) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("target", ["ostinato_row", "Ostinato_ID", "source_name"])
def test_a_trial_refuses_the_targets_that_create_refuses(app, api, target):
    definition = a_source_of(api.url("/gzip"))
    definition["response"] |= {"fields": [{"source": "name", "target": target}], "unique": [target]}
    sentences = []
    for command in (app.scheduler.part(SourceService).create, app.scheduler.part(SourceService).test):
        with pytest.raises(Invalid, match=target) as refused:
            command(definition, HERE)
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1]
    assert not api.requests


def test_a_timeout_keeps_the_pages_before_it(app, api):
    paging = {"type": "page", "limit": 5, "hasMorePath": "more"}
    definition = a_source_of(api.url("/hang"), path="data.items", pagination=paging, execution={"timeout": 2})
    ended = run_once(app, definition)
    assert ended.error_kind in ("TimedOut", "TransientFailure")
    assert numbers(app) == list(range(15))
    assert (ended.items_crawled, ended.items_indexed) == (15, 15)


def test_records_that_cannot_be_converted_are_counted_and_kept_with_the_reason(app, api):
    api.bodies["/mixed"] = [a_record(n) for n in range(19)] + [{"id": "x", "value": 1, "name": "odd"}]
    ended = run_once(app, a_source_of(api.url("/mixed")))
    assert ended.outcome == "completed", ended.error
    assert (ended.result["rejected"], ended.items_crawled, ended.items_indexed) == (1, 20, 19)
    (rejection,) = ended.result["rejections"]
    assert (rejection["page"], rejection["record"], rejection["field"]) == (1, 20, "id")


def test_too_many_rejected_records_fail_the_run(app, api):
    api.bodies["/mixed"] = [a_record(1), {"id": "x", "name": "odd"}]
    ended = run_once(app, a_source_of(api.url("/mixed")))
    assert ended.error_kind == "PermanentFailure"
    assert "1 of 2 records were rejected" in ended.error
    assert "field id" in ended.error


@pytest.mark.parametrize(("limit", "stored"), [({"maxPages": 2}, 20), ({"maxRecords": 12}, 12)])
def test_a_limit_fails_the_run_or_stops_it(app, api, limit, stored):
    paging = {"type": "page", "limit": 10, "hasMorePath": "more"}
    definition = a_source_of(api.url("/page"), path="data.items", pagination=paging)
    ended = run_once(app, definition | {"limits": {**limit, "onLimit": "stop"}})
    assert ended.result["limited_by"] == f"limits.{next(iter(limit))}"
    assert numbers(app) == list(range(stored))
    failed = run_once(app, definition | {"name": "again", "table": "others", "limits": limit})
    assert f"limits.{next(iter(limit))}" in failed.error


def test_incremental_asks_only_for_what_is_new(app, api):
    definition = a_source_of(
        api.url("/page"),
        path="data.items",
        incremental={"param": "since", "from": "max(number)", "overlap": 4},
    )
    run_once(app, definition, runs=2)
    first, second = api.asked("/page")
    assert "since" not in first
    assert second["since"] == "5"


def test_a_large_page_is_streamed(app, api):
    api.records = 30_000
    paging = {"type": "cursor", "cursorParam": "cursor", "nextCursorPath": "paging.next", "limit": 15_000}
    ended = run_once(app, a_source_of(api.url("/cursor"), path="items", pagination=paging))
    assert ended.outcome == "completed", ended.error
    assert ended.result["bytes"] > 2 * 1024 * 1024
    assert (ended.result["pages"], ended.items_indexed) == (2, 30_000)
    api.bodies["/cut"] = lambda handler: handler.answer(b'{"items": [' + b'{"id": 1, "value": 2},' * 100_000)
    broken = run_once(app, a_source_of(api.url("/cut"), "cut", "others", "items"))
    assert "JSON" in broken.error
    assert app.scheduler.part(SourceService).records("cut", 10) == [], "a page is stored whole or not at all"


def test_a_source_that_is_not_active_never_runs(app, api):
    async def a_while():
        sources = app.scheduler.part(SourceService)
        async with app.running():
            await asyncio.to_thread(sources.create, a_source_of(api.url("/gzip"), status="paused"), HERE)
            other = await asyncio.to_thread(sources.create, a_source_of(api.url("/gzip"), "other"), HERE)
            await _finished(app, other.job.id, 1)
            await asyncio.to_thread(sources.edit, "things", {"status": "active"}, HERE)
            await _finished(app, sources.get("things").job.id, 1)

    asyncio.run(a_while())
    assert len(api.requests) == 2


def test_a_table_that_does_not_fit_is_a_failure_that_says_what_is_missing(app, api):
    app.scheduler.part(SourceService).create(a_source_of(api.url("/gzip")), HERE)
    database = app.parts.store.database
    with database.write() as tx:
        tx.run(database.dialect.statement("CREATE TABLE things (number integer)"))

    async def until_done():
        async with app.running(), asyncio.timeout(PATIENCE):
            return await _finished(app, app.scheduler.part(SourceService).get("things").job.id, 1)

    ended = asyncio.run(until_done())
    assert "it has no column source_name, amount, title" in ended.error
    assert api.requests == []
