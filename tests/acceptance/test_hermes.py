"""What the two Hermes documents promise (000 scheduler, 002 worker), black box: a real server, a real API, a database.

A small real HTTP server plays the APIs (tests/played_api.py); `ostinato serve` is a process, asked over HTTP.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.acceptance.hermes import PAGED, TABLES, asking, create, rows_of, run_of, source, wake
from tests.acceptance.server import Server
from tests.played_api import a_source_of
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("hermes")]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database of this module's own, of either kind: most tests share one server on it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('hermes')}/ostinato.db"
    here = request.getfixturevalue("postgres_database")
    name = f"{here.rpartition('/')[2]}_hermes"  # of this process of pytest-xdist
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return f"{here.rpartition('/')[0]}/{name}"


@pytest.fixture
def rows(url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Ask the database itself, past Ostinato."""

    return asking(url)


@pytest.fixture(scope="module")
def shared(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("shared"),
        url,
        OSTINATO_ALLOW_PRIVATE_ADDRESSES="true",
        OSTINATO_HTTP_PROCESS="on",
    )
    eventually(server.ready)
    yield server
    server.kill()


@pytest.fixture
def server(shared: Server, rows: Any) -> Server:
    """A server without sources, on a database without tables of users."""
    for each in shared("GET", "/api/v1/sources").body["sources"]:
        shared("DELETE", f"/api/v1/sources/{each['name']}")
    for table in TABLES:
        rows(f"DROP TABLE IF EXISTS {table}")
    return shared


# -- 002: fetching, paging, storing

PAGINGS = [
    ("/page", "data.items", {"offsetPagination": {name: value for name, value in PAGED.items() if name != "type"}}),
    ("/offset", ".", {"pagination": {"type": "offset", "limit": 10}}),
    ("/cursor", "items", {"cursorPagination": {"cursorParam": "cursor", "nextCursorPath": "paging.next"}}),
    ("/link", ".", {"pagination": {"type": "link_header"}}),
    ("/url", "items", {"pagination": {"type": "next_url", "nextUrlPath": "next"}}),
]  # fmt: skip


def test_all_pages_of_each_kind_arrive_in_the_table_and_a_second_run_adds_nothing(server, api, rows):
    made = {}
    for number, (path, data, how) in enumerate(PAGINGS):
        made[number] = create(server, a_source_of(api.url(path), f"s{number}", path=data, **how))
    for number, job_id in made.items():
        first = run_of(server, job_id)
        assert (first["outcome"], first["items_crawled"], first["items_indexed"]) == ("completed", 25, 25), first
        server("POST", f"/api/v1/sources/s{number}/run")
        second = run_of(server, job_id, 2)
        assert (second["outcome"], second["items_crawled"], second["items_indexed"]) == ("completed", 25, 0)
        (count,) = rows(f"SELECT count(DISTINCT number), count(*) FROM things WHERE source_name = 's{number}'")
        assert count == (25, 25)
    assert rows("SELECT count(*) FROM things WHERE created_at IS NULL OR amount IS NULL OR title IS NULL") == [(0,)]
    newest = server("GET", "/api/v1/sources/s0/records?limit=3").body["records"]
    assert [row["number"] for row in newest] == [24, 23, 22]


def test_what_goes_wrong_is_a_failure_with_details_and_the_three_facts_are_shown(server, api):
    wrong = {
        "/500": ["TransientFailure", "500", "out of order"],
        "/429": ["AskedToWait", "429", "slow down"],
        "/404": ["PermanentFailure", "404", "no such series"],
        "/reset": ["TransientFailure"],
        "/broken": ["PermanentFailure", "JSON"],
        "/html": ["PermanentFailure", "Sign in"],
        "/bomb": ["PermanentFailure", "maxBytes"],
        "/to-metadata": ["PermanentFailure", "link-local"],
        "/slow": ["", ""],
    }
    limits = {"maxBytes": "10MB"}
    timeouts = {"/slow": 3}  # for this one alone: on a busy machine the others may take longer
    made = {
        path: create(
            server,
            a_source_of(api.url(path), f"s{n}", limits=limits, execution={"timeout": timeouts.get(path, 300)}),
        )
        for n, path in enumerate(wrong)
    }
    for n, (path, words) in enumerate(wrong.items()):
        run = run_of(server, made[path])
        assert run["status"] == "failed"
        told = f"{run['error_kind']} {run['error_message']}"
        assert all(word in told for word in words), (path, told)
        facts = source(server, f"s{n}")
        assert facts["retry_count"] == 1
        assert facts["period_start"] is not None
        assert facts["next_retry_at"] > facts["period_start"]
    listed = cli(server, "source", "list")
    assert "1/5" in listed
    assert "Period start" in cli(server, "source", "show", "s0")
    assert "Traceback" not in server.log


def test_a_cancel_and_a_timeout_keep_the_completed_pages(server, api, rows):
    paging = PAGED | {"limit": 5}
    hangs = a_source_of(api.url("/hang"), path="data.items", pagination=paging)
    other = create(server, hangs | {"name": "other", "table": "others"})
    eventually(lambda: api.asked("/hang") and rows_of(rows, "others") == 15)
    (live,) = [
        each
        for each in server("GET", f"/api/v1/jobs/{other}/executions").body["executions"]
        if each["status"] == "running"
    ]
    server("POST", f"/api/v1/executions/{live['id']}/cancel")
    assert run_of(server, other)["status"] == "cancelled"
    assert rows_of(rows, "others") == 15
    # What a first fetch has to import it has imported by now: three small pages take no ten seconds.
    run = run_of(server, create(server, hangs | {"execution": {"timeout": 10}}))
    assert (run["status"], run["items_indexed"]) == ("failed", 15)
    assert rows_of(rows, "things") == 15


def test_a_retry_starts_from_page_1_unless_it_resumes(server, api, rows):
    paging = {"type": "page", "limitParam": "limit", "limit": 10, "hasMorePath": "more"}
    broken = threading.Event()

    def breaks_once(handler: Any) -> None:
        from tests.played_api import by_page

        if handler.query["page"] == "2" and not broken.is_set():
            broken.set()
            handler.answer({"error": "busy"}, 503, Retry_After="0")
        else:
            by_page(handler)

    api.bodies["/once"] = breaks_once
    for resume, asked in ((False, ["1", "2", "1", "2", "3"]), (True, ["1", "2", "2", "3"])):
        name = "resumes" if resume else "restarts"
        broken.clear()
        api.requests.clear()
        definition = a_source_of(api.url("/once"), name, path="data.items", pagination=paging)
        job_id = create(server, definition | {"execution": {"resume": resume}})
        first, second = run_of(server, job_id), run_of(server, job_id, 2) if wake(server, job_id) else None
        assert (first["status"], second["status"]) == ("failed", "completed")
        assert [query["page"] for query in api.asked("/once")] == asked
        assert rows(f"SELECT count(*) FROM things WHERE source_name = '{name}'") == [(25,)]


# -- 000: when due, retries, bounds


def test_a_source_runs_at_once_and_then_by_its_schedule_though_nothing_new_came(server, api):
    api.records = 0
    job_id = create(server, a_source_of(api.url("/offset"), pagination={"type": "offset", "limit": 10}))
    run = run_of(server, job_id)
    assert (run["status"], run["items_crawled"]) == ("completed", 0)
    facts = source(server)
    assert facts["job_status"] == "scheduled"
    assert re.fullmatch(r"every day at \d\d:\d\d UTC", facts["schedule"])
    assert facts["next_run_at"] > run["completed_at"], "the run record decides, not what is in the table"


def test_one_source_is_never_in_flight_twice(server, api, rows):
    definition = a_source_of(api.url("/hang"), path="data.items", pagination=PAGED, schedule="interval:1s")
    job_id = create(server, definition)
    api.records = 50
    eventually(lambda: len(server("GET", f"/api/v1/jobs/{job_id}/skips").body["skips"]) >= 1)
    running = server("GET", "/api/v1/executions?status=running").body["executions"]
    assert len(running) == 1
    api.go_on.set()


def test_edits_never_affect_a_run_in_progress(server, api, rows):
    create(server, a_source_of(api.url("/hang"), path="data.items", pagination=PAGED | {"limit": 5}))
    eventually(lambda: rows_of(rows, "things") == 15)
    code, edited = server("PATCH", "/api/v1/sources/things", {"table": "others", "description": "new"})
    assert (code, edited["table"]) == (200, "others")
    api.go_on.set()
    eventually(lambda: rows_of(rows, "things") == 25)
    assert rows_of(rows, "others") == 0


def test_delete_keeps_the_rows_unless_it_is_told_otherwise(server, api, rows):
    for name in ("one", "two"):
        run_of(server, create(server, a_source_of(api.url("/gzip"), name)))
    assert server("DELETE", "/api/v1/sources/one").body["rows_deleted"] == 0
    assert server("GET", "/api/v1/sources/one").code == 404
    assert rows_of(rows, "things") == 10
    assert server("DELETE", "/api/v1/sources/two?with_data=true").body["rows_deleted"] == 5
    assert rows("SELECT DISTINCT source_name FROM things") == [("one",)]


def test_a_source_that_is_not_active_never_runs(server, api):
    create(server, a_source_of(api.url("/gzip"), status="disabled"))
    assert server("POST", "/api/v1/sources/things/run").code == 409
    run_of(server, create(server, a_source_of(api.url("/gzip"), "other")))
    assert len(api.requests) == 1
    assert server("PATCH", "/api/v1/sources/things", {"status": "active"}).code == 200
    eventually(lambda: len(api.requests) == 2)


def test_a_table_of_the_user_is_used_and_anything_else_is_refused_with_what_is_missing(server, api, rows):
    rows("CREATE TABLE theirs (source_name text, number bigint UNIQUE, amount double precision, title text)")
    run = run_of(server, create(server, a_source_of(api.url("/gzip"), table="theirs")))
    assert run["items_indexed"] == 5
    rows("CREATE TABLE others (number bigint)")
    code, refusal = server("POST", "/api/v1/sources", a_source_of(api.url("/gzip"), "more", "others"))
    assert code == 422
    assert "source_name, amount, title" in refusal["detail"]
    for table in ("jobs", "retries", "ostinato_jobs"):
        code, refusal = server("POST", "/api/v1/sources", a_source_of(api.url("/gzip"), "more", table))
        assert (code, "table" in refusal["detail"]) == (422, True)
    code, refusal = server("POST", "/api/v1/sources", a_source_of("file:///etc/passwd", "more"))
    assert (code, "url" in refusal["detail"]) == (422, True)


# -- the command line


def cli(server: Server, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from ostinato.program import main; main()", *words, "--server", server.address],
        capture_output=True, text=True, timeout=PATIENCE, cwd=server.folder, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_command_line_tries_applies_shows_and_deletes(server, api, rows, tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    for number in range(2):
        text = json.dumps(a_source_of(api.url("/gzip"), f"s{number}"))
        (folder / f"s{number}.yaml").write_text(text)
    tried = cli(server, "source", "test", str(folder / "s0.yaml"))
    assert "record 4" in tried
    assert "5 records, 5 distinct, 0 rejected; nothing was stored" in tried
    assert rows_of(rows, "things") == 0
    planned = cli(server, "source", "apply", str(folder), "--dry-run")
    assert planned.count("created") == 2
    assert "Applied: 2 created" in cli(server, "source", "apply", str(folder))
    assert "2 unchanged" in cli(server, "source", "apply", str(folder))
    eventually(lambda: rows_of(rows, "things") == 10)
    eventually(lambda: source(server, "s0")["last_run"])
    shown = cli(server, "source", "show", "s0", "--records", "3")
    assert "record 3" in shown
    assert "5, 5 new" in shown
    (folder / "s1.yaml").unlink()
    assert "confirm with --yes" in cli(server, "source", "apply", str(folder), "--prune", code=2)
    assert "1 deleted" in cli(server, "source", "apply", str(folder), "--prune", "--yes")
    assert "with 5 rows" in cli(server, "source", "delete", "s0", "--with-data", "--yes")
    assert rows("SELECT DISTINCT source_name FROM things") == [("s1",)]
    (folder / "bad.yaml").write_text("name: x\nurl: ftp://x\n")
    assert "x: url must be an http or https URL" in cli(server, "source", "apply", str(folder), code=2)
