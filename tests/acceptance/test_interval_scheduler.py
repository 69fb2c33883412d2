"""Seed 003, the interval-based job scheduler: its examples as written, against `ostinato serve`, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from tests.acceptance.server import Server
from tests.waiting import eventually

pytestmark = pytest.mark.system

SHORT = {"OSTINATO_LEASE_SECONDS": "2s", "OSTINATO_SWEEP_SECONDS": "500ms"}
SCHEMA = "seed_003"

CREATE_INTERVAL_BASED = """{
  "source_id": "news-site",
  "source_name": "example.com",
  "url": "https://example.com",

  // NEW: Interval-based scheduling
  "interval_minutes": 30,
  "interval_type": "minutes",
  "schedule_enabled": true,

  // NEW: Retry configuration
  "max_retries": 3,
  "retry_backoff_seconds": 60,

  // NEW: Metadata
  "metadata": {
    "category": "news",
    "priority": "high"
  }
}"""
CREATE_IMMEDIATE = """{
  "source_id": "news-site",
  "source_name": "example.com",
  "url": "https://example.com",
  "schedule_enabled": false  // Run once, immediately
}"""
CURL = (
    '{"source_name": "example.com", "url": "https://example.com", "interval_minutes": 30,'
    ' "interval_type": "minutes", "schedule_enabled": true}'
)
ADJUST_RETRIES = """{
     "max_retries": 5,
     "retry_backoff_seconds": 120
   }"""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path_factory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('seed')}/ostinato.db"
    database = request.getfixturevalue("postgres_database")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    return database


@pytest.fixture
def start(url, tmp_path) -> Iterator[object]:
    """Start servers on the same database; they are gone afterwards."""
    started: list[Server] = []

    def start(*flags: str) -> Server:
        server = Server(tmp_path, url, *flags, OSTINATO_SCHEMA=SCHEMA, **SHORT)
        started.append(server)
        eventually(server.ready)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def server(url, tmp_path_factory) -> Iterator[Server]:
    """One for all tests that do not mistreat it."""
    flags = ("--queues", "default")
    server = Server(tmp_path_factory.mktemp("server"), url, *flags, OSTINATO_SCHEMA=SCHEMA, **SHORT)
    try:
        eventually(server.ready)
        yield server
        assert server.terminate() == 0
        assert "Traceback" not in server.log
    finally:
        server.kill()


def make(server, body):
    code, job = server("POST", "/api/v1/jobs", body)
    assert code == 201, job
    return job


def get(server, path):
    code, body = server("GET", f"/api/v1{path}")
    assert code == 200, body
    return body


def control(server, job, verb):
    code, body = server("POST", f"/api/v1/jobs/{job['id']}/{verb}")
    assert code == (202 if verb == "run" else 200), body
    return body


def until(server, job, status):
    """The job, once it has this status."""
    return eventually(lambda: (found := get(server, f"/jobs/{job['id']}"))["status"] == status and found)


def at(text) -> datetime:
    return datetime.fromisoformat(text)


# -- key features


def test_create_job_interval_based(server):
    job = make(server, CREATE_INTERVAL_BASED)
    said = {
        "source_id": "news-site", "source_name": "example.com", "url": "https://example.com", "interval_minutes": 30,
        "interval_type": "minutes", "schedule_enabled": True, "max_retries": 3, "retry_backoff_seconds": 60,
        "metadata": {"category": "news", "priority": "high"},
    }  # fmt: skip
    assert {name: job[name] for name in said} == said
    assert job["status"] == "scheduled"
    assert at(job["next_run_at"]) - at(job["created_at"]) == timedelta(minutes=30)
    assert (job["is_paused"], job["current_retry_count"], job["lock_token"]) == (False, 0, None)
    assert get(server, f"/jobs/{job['id']}") == job


@pytest.mark.parametrize(
    ("interval", "period"),
    [
        ({"interval_minutes": 30, "interval_type": "minutes"}, timedelta(minutes=30)),
        ({"interval_minutes": 6, "interval_type": "hours"}, timedelta(hours=6)),
        ({"interval_minutes": 1, "interval_type": "days"}, timedelta(days=1)),
    ],
)
def test_the_intervals(server, interval, period):
    job = make(server, {"url": "https://example.com", "source_name": "example.com", **interval})
    assert at(job["next_run_at"]) - at(job["created_at"]) == period
    assert {name: job[name] for name in interval} == interval


def test_create_immediate_job(server):
    job = make(server, CREATE_IMMEDIATE)
    assert (job["status"], job["schedule_enabled"], job["interval_minutes"]) == ("pending", False, None)


def test_an_immediate_job_runs_once(server):
    job = make(server, {"task": "fine", "schedule_enabled": False})
    done = until(server, job, "completed")
    assert done["next_run_at"] is None
    assert get(server, f"/jobs/{job['id']}/executions")["total"] == 1


def test_the_curl_lines(server):
    job = make(server, CURL)
    code, paused = server("POST", f"/api/v1/jobs/{job['id']}/pause")
    assert (code, paused["status"]) == (200, "paused")
    assert server("GET", "/api/v1/scheduler/metrics").code == 200


# -- job control


def test_pause_and_resume(server):
    job = make(server, CURL)
    paused = control(server, job, "pause")
    assert (paused["id"], paused["status"], paused["is_paused"]) == (job["id"], "paused", True)
    assert at(paused["paused_at"]) >= at(job["created_at"])
    resumed = control(server, job, "resume")
    assert (resumed["status"], resumed["is_paused"]) == ("scheduled", False)
    assert at(resumed["next_run_at"]) >= at(paused["paused_at"]) + timedelta(minutes=30)


def test_cancel_stops_a_running_job_mid_execution(server):
    job = make(server, {"task": "holds", "args": {"name": "never"}, "schedule_enabled": False})
    running = until(server, job, "running")
    assert running["lock_token"] is not None
    assert at(running["lock_acquired_at"]) >= at(job["created_at"])
    cancelled = control(server, job, "cancel")
    assert (cancelled["id"], cancelled["status"]) == (job["id"], "cancelled")
    assert cancelled["cancelled_at"] is not None
    eventually(lambda: get(server, f"/executions/{running['lock_token']}")["status"] == "cancelled")
    assert get(server, f"/jobs/{job['id']}")["lock_token"] is None


def test_retry_a_failed_job(server):
    job = make(server, {"task": "fails", "schedule_enabled": False, "max_retries": 1, "retry_backoff_seconds": 1})
    failed = until(server, job, "failed")
    assert failed["error_message"] == "connection timeout"
    assert failed["current_retry_count"] == 1
    retried = control(server, job, "retry")
    assert (retried["id"], retried["status"], retried["current_retry_count"]) == (job["id"], "pending", 0)
    eventually(lambda: get(server, f"/jobs/{job['id']}/executions")["total"] >= 4)
    until(server, job, "failed")


def test_a_terminal_job_allows_no_further_transitions(server):
    job = make(server, CURL)
    control(server, job, "cancel")
    for verb in ("pause", "resume", "cancel", "retry", "run"):
        code, body = server("POST", f"/api/v1/jobs/{job['id']}/{verb}")
        assert code == 409
        assert "This job is cancelled" in body["detail"]


# -- retries and history


def test_retries_back_off_exponentially_and_then_the_job_has_failed(server):
    job = make(server, {"task": "fails", "schedule_enabled": False, "max_retries": 2, "retry_backoff_seconds": 1})
    until(server, job, "failed")
    runs = get(server, f"/jobs/{job['id']}/executions")["executions"][::-1]
    assert [(run["retry_attempt"], run["execution_number"], run["status"]) for run in runs] == [
        (0, 1, "failed"), (1, 2, "failed"), (2, 3, "failed"),
    ]  # fmt: skip
    for delay, before, after in zip((1, 2), runs, runs[1:], strict=False):
        assert at(after["run_at"]) - at(before["completed_at"]) == timedelta(seconds=delay)
        assert at(after["started_at"]) >= at(after["run_at"])
    assert "ConnectionError" in runs[0]["stack_trace"]


def test_list_job_executions(server):
    job = make(server, {"task": "fine", "schedule": "manual"})
    for count in (1, 2, 3):
        control(server, job, "run")
        path = f"/jobs/{job['id']}/executions?limit=50&offset=0"
        eventually(lambda: [r["status"] for r in get(server, path)["executions"]] == ["completed"] * count)  # noqa: B023
    page = get(server, path)
    assert (page["total"], page["limit"], page["offset"]) == (3, 50, 0)
    assert [run["execution_number"] for run in page["executions"]] == [3, 2, 1]
    shown = {
        "id", "job_id", "execution_number", "status", "started_at", "completed_at", "duration_ms", "items_crawled",
        "items_indexed", "retry_attempt",
    }  # fmt: skip
    assert all(shown <= run.keys() for run in page["executions"])
    second = get(server, f"/jobs/{job['id']}/executions?limit=1&offset=1")
    assert [run["execution_number"] for run in second["executions"]] == [2]


def test_get_single_execution(server):
    job = make(server, {"task": "fine", "schedule_enabled": False})
    until(server, job, "completed")
    (listed,) = get(server, f"/jobs/{job['id']}/executions")["executions"]
    run = get(server, f"/executions/{listed['id']}")
    assert {
        "id", "job_id", "execution_number", "status", "started_at", "completed_at", "duration_ms", "items_crawled",
        "items_indexed", "error_message", "cpu_time_ms", "memory_peak_mb", "retry_attempt", "metadata",
    } <= run.keys()  # fmt: skip
    assert (run["job_id"], run["status"], run["error_message"]) == (job["id"], "completed", None)
    assert run["duration_ms"] == round((at(run["completed_at"]) - at(run["started_at"])) / timedelta(milliseconds=1))


# -- statistics


def test_job_statistics(server):
    job = make(server, {"task": "fine", "interval_minutes": 30, "first_run": "now"})
    eventually(lambda: get(server, f"/jobs/{job['id']}/stats")["successful_runs"] == 1)
    stats = get(server, f"/jobs/{job['id']}/stats")
    assert (stats["total_executions"], stats["failed_runs"], stats["success_rate"]) == (1, 0, 1.0)
    assert stats["average_duration_ms"] >= 0
    assert at(stats["last_execution_at"]) >= at(job["created_at"])
    assert stats["next_scheduled_at"] == until(server, job, "scheduled")["next_run_at"]


def test_scheduler_metrics(server):
    job = make(server, {"task": "fine", "schedule_enabled": False})
    until(server, job, "completed")
    metrics = get(server, "/scheduler/metrics")
    assert {"scheduled", "running", "completed", "failed", "cancelled"} <= metrics["jobs"].keys()
    assert metrics["jobs"]["completed"] >= 1
    assert {"total", "average_duration_ms", "success_rate"} <= metrics["executions"].keys()
    assert 0 < metrics["executions"]["success_rate"] <= 1
    assert at(metrics["last_check_at"]) <= at(metrics["last_metrics_update"])
    assert metrics["stale_locks_cleared"] >= 0


# -- lifecycle and configuration


def test_a_recurring_job_is_scheduled_again_after_each_success(server):
    job = make(server, {"task": "fine", "schedule": "1s", "max_retries": 0})
    eventually(lambda: get(server, f"/jobs/{job['id']}/stats")["successful_runs"] >= 3)
    runs = get(server, f"/jobs/{job['id']}/executions?status=completed")["executions"][::-1]
    due = [at(run["due_at"]) - at(job["created_at"]) for run in runs]
    assert all(each % timedelta(seconds=1) == timedelta(0) for each in due)
    assert all(at(run["started_at"]) >= at(run["due_at"]) for run in runs)
    assert control(server, job, "pause")["status"] == "paused"


def test_adjust_retry_settings(server):
    job = make(server, CURL)
    code, edited = server("PUT", f"/api/v1/jobs/{job['id']}", ADJUST_RETRIES)
    assert code == 200
    assert (edited["max_retries"], edited["retry_backoff_seconds"]) == (5, 120)
    assert (edited["next_run_at"], edited["url"]) == (job["next_run_at"], job["url"])


def test_cron_is_still_understood_and_an_interval_wins(server):
    source = {"url": "https://example.com", "source_name": "example.com", "schedule_enabled": True}
    cron = make(server, {**source, "schedule_time": "0 * * * *"})
    assert (cron["schedule_time"], cron["status"], cron["interval_minutes"]) == (
        "0 * * * *",
        "scheduled",
        None,
    )
    both = make(server, {**source, "schedule_time": "0 * * * *", "interval_minutes": 45})
    assert (both["interval_minutes"], both["schedule_time"]) == (45, "0 * * * *")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"source_name": "example.com"},
        {"url": "not a url", "source_name": "example.com"},
        {"url": "file:///etc/passwd", "source_name": "example.com"},
        {"url": "https://example.com", "source_name": ""},
        {"url": "https://example.com", "interval_minutes": 0},
        {"url": "https://example.com", "interval_minutes": -30},
        {"url": "https://example.com", "interval_minutes": "30"},
        {"url": "https://example.com", "interval_minutes": 30, "interval_type": "fortnights"},
        {"url": "https://example.com", "schedule_enabled": True},
        {"url": "https://example.com", "max_retries": -1},
        {"url": "https://example.com", "interval_minuts": 30},
        "{",
    ],
)
def test_wrong_input_is_refused_with_a_sentence(server, body):
    code, answer = server("POST", "/api/v1/jobs", body)
    assert code == 422
    assert answer["detail"].endswith((".", "?"))


def test_a_deleted_job_is_gone(server):
    job = make(server, CURL)
    code, body = server("DELETE", f"/api/v1/jobs/{job['id']}")
    assert code == 200
    assert body["message"]
    assert server("GET", f"/api/v1/jobs/{job['id']}").code == 404
    assert job["id"] not in [each["id"] for each in get(server, "/jobs?limit=250")["jobs"]]


# -- several instances, locks, restarts


def test_two_instances_run_each_job_once(server, start):
    other = start()
    jobs = [make(each, {"task": "fine", "schedule_enabled": False}) for each in (server, other) * 10]
    for job in jobs:
        until(other, job, "completed")
    assert [get(server, f"/jobs/{job['id']}/executions")["total"] for job in jobs] == [1] * 20


def test_a_job_survives_its_server_and_its_stale_lock_is_cleared(server, start):
    doomed = start("--queues", "doomed")
    before = get(server, "/scheduler/metrics")["stale_locks_cleared"]
    body = {"task": "holds", "args": {"name": "stuck"}, "queue": "doomed", "schedule_enabled": False}
    job = make(doomed, body)
    until(doomed, job, "running")
    doomed.kill()
    eventually(lambda: get(server, "/scheduler/metrics")["stale_locks_cleared"] > before)
    (doomed.folder / "stuck.go").touch()
    start("--queues", "doomed")
    until(server, job, "completed")
    outcomes = [run["outcome"] for run in get(server, f"/jobs/{job['id']}/executions")["executions"]]
    assert outcomes == ["completed", "lost"]


def test_jobs_outlive_a_restart(start):
    first = start("--queues", "none")
    job = make(first, CREATE_INTERVAL_BASED)
    assert first.terminate() == 0
    second = start("--no-worker")
    assert get(second, f"/jobs/{job['id']}") == job
    control(second, job, "cancel")
