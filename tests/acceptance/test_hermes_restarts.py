"""What the two Hermes documents promise of servers that are stopped, restarted and killed while they fetch."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.acceptance.hermes import PAGED, TABLES, asking, create, rows_of, run_of, runs, source, wake
from tests.acceptance.server import Server
from tests.played_api import PlayedApi, a_source_of
from tests.waiting import eventually

pytestmark = pytest.mark.system

QUICKLY = {"OSTINATO_LEASE_SECONDS": "3s", "OSTINATO_SWEEP_SECONDS": "1s", "OSTINATO_RENEW_SECONDS": "1s"}
Start = Callable[..., Server]


@pytest.fixture
def start(database_url: str, tmp_path) -> Iterator[Start]:
    """Servers of the test's own, on a database of its own, to be stopped and killed."""
    started: list[Server] = []

    def start(*flags: str, **environment: str) -> Server:
        allowed = {"OSTINATO_ALLOW_PRIVATE_ADDRESSES": "true"}
        started.append(Server(tmp_path, database_url, *flags, **allowed | environment))
        eventually(started[-1].ready)
        return started[-1]

    _drop_tables(database_url)
    yield start
    for server in started:
        server.kill()


def _drop_tables(database_url: str) -> None:
    if not database_url.startswith("sqlite"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            for table in TABLES:
                connection.execute(f"DROP TABLE IF EXISTS {table}")


def test_a_stopping_worker_hands_a_fetch_back_at_once_and_another_goes_on_with_its_next_page(start, api, database_url):
    rows = asking(database_url)
    server = start(OSTINATO_SHUTDOWN_GRACE="10m")
    job_id = create(server, a_source_of(api.url("/hang"), path="data.items", pagination=PAGED | {"limit": 5}))
    eventually(lambda: rows_of(rows, "things") == 15)
    assert server.terminate() == 0, "without using up its ten minutes"
    api.go_on.set()
    again = start()
    run = run_of(again, job_id)
    assert (run["status"], run["retry_attempt"]) == ("completed", 0), "the same attempt, nothing spent"
    assert [query["page"] for query in api.asked("/hang")].count("1") == 1
    assert rows("SELECT count(*), count(DISTINCT number) FROM things") == [(25, 25)]
    assert (run["items_crawled"], run["items_indexed"]) == (25, 25), "with what was stored before"
    assert source(again)["retry_count"] == 0


def test_a_used_up_budget_skips_until_the_period_has_passed_across_a_restart(start, api):
    server = start()
    api.bodies["/flaky"] = lambda handler: handler.answer({"error": "down"}, 500)
    definition = a_source_of(
        api.url("/flaky"),
        schedule="interval:1s",
        execution={"maxRetries": 2, "retryResetPeriod": "8s"},
    )
    job_id = create(server, definition)
    eventually(lambda: len(runs(server, job_id)) >= 1)
    wake(server, job_id)
    eventually(lambda: source(server)["retry_count"] == 2)
    before = source(server)
    assert before["next_retry_at"] is not None
    server.kill()
    api.bodies["/flaky"] = api.slice(0, 5)
    asked = len(api.requests)
    again = start()
    after = source(again)
    assert (after["retry_count"], after["period_start"]) in [(2, before["period_start"]), (0, None)]
    eventually(lambda: any(run["status"] == "completed" for run in runs(again, job_id)))
    assert len(api.requests) > asked
    skips = again("GET", f"/api/v1/jobs/{job_id}/skips").body["skips"]
    assert "budget" in {skip["reason"] for skip in skips}
    facts = source(again)
    assert (facts["retry_count"], facts["next_retry_at"]) == (0, None)


def test_twenty_due_sources_and_a_queue_of_five_all_run_once_before_any_runs_twice(start, api):
    """The worked example of the scheduler's document: new sources, which all want to run at once."""
    server = start("--concurrency", "1")
    assert server("PATCH", "/api/v1/queues/sources", {"max_queued": 5}).code == 200
    server("POST", "/api/v1/queues/sources/pause")
    for number in range(20):
        api.bodies[f"/s{number}"] = api.slice(0, 3)
        definition = a_source_of(api.url(f"/s{number}"), f"s{number}", schedule="interval:10s", queue="sources")
        create(server, definition)
    queued = {queue["name"]: queue["queued"] for queue in server("GET", "/api/v1/queues").body["queues"]}
    assert queued["sources"] <= 5
    server("POST", "/api/v1/queues/sources/resume")
    eventually(lambda: len({path for path, _ in api.requests}) == 20)
    first = [path for path, _ in api.requests][:20]
    assert len(set(first)) == 20, "none ran twice before all had run once"


# -- killed at random


def killed_at_random(start: Start, api: PlayedApi, rows: Any, times: int) -> None:
    api.records, api.limit = 1000, 20
    chance = random.Random(times)
    server = start(**QUICKLY)
    job_id = create(server, a_source_of(api.url("/page"), path="data.items", pagination=PAGED | {"limit": 20}))
    for _ in range(times):
        until_asked(api, server, job_id)
        time.sleep(chance.uniform(0, 0.25))  # in another process: wherever it may be by then
        server.kill()
        whole_pages_only(rows)
        server = start(**QUICKLY)
    until_asked(api, server, job_id)
    eventually(lambda: not alive(server, job_id))
    server("POST", f"/api/v1/jobs/{job_id}/run")
    eventually(lambda: not alive(server, job_id))
    whole_pages_only(rows)
    assert rows("SELECT count(*), count(DISTINCT number) FROM things") == [(1000, 1000)]
    last = runs(server, job_id)[-1]
    assert (last["outcome"], last["items_crawled"], last["items_indexed"]) == ("completed", 1000, 0)


def until_asked(api: PlayedApi, server: Server, job_id: str) -> None:
    """Until it fetches: what waits for a backoff, or for its schedule, is started by hand, once."""
    seen, started = len(api.requests), False

    def asked() -> bool:
        nonlocal started
        running = server("GET", f"/api/v1/jobs/{job_id}/executions?status=running").body["executions"]
        if not running and not started:
            started = server("POST", f"/api/v1/jobs/{job_id}/run").code == 202
        return len(api.requests) > seen

    eventually(asked)


def alive(server: Server, job_id: str) -> bool:
    found = server("GET", f"/api/v1/jobs/{job_id}/executions?limit=5").body["executions"]
    return any(each["outcome"] is None for each in found)


def whole_pages_only(rows: Any) -> None:
    """Of each page of twenty everything is there, or nothing."""
    if rows_of(rows, "things"):
        pages = dict(rows("SELECT number / 20, count(*) FROM things GROUP BY 1"))
        assert set(pages.values()) == {20}, pages


def test_killed_three_times_in_fifty_pages_every_record_is_there_once_and_no_page_is_half_written(
    start, api, database_url
):
    killed_at_random(start, api, asking(database_url), 3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_thirty_times_in_fifty_pages(start, api, database_url):
    killed_at_random(start, api, asking(database_url), 30)
