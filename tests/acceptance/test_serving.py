"""`ostinato serve`: one process that serves and works, and how it stops."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.acceptance.server import PATIENCE, Server
from tests.waiting import eventually

pytestmark = pytest.mark.system


@pytest.fixture
def start(empty_sqlite_url, tmp_path) -> Iterator[object]:
    started: list[Server] = []

    def start(*flags: str, **environment: str) -> Server:
        started.append(Server(tmp_path, empty_sqlite_url, *flags, OSTINATO_HTTP_PROCESS="on", **environment))
        eventually(started[-1].ready)
        return started[-1]

    yield start
    for server in started:
        server.kill()


def refused(server) -> bool:
    parts = urlsplit(server.address)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE):
            return False
    except ConnectionRefusedError:
        return True


def test_a_stop_closes_the_door_first_and_lets_what_runs_finish(start):
    server = start(OSTINATO_SHUTDOWN_GRACE="10m")
    code, job = server("POST", "/api/v1/jobs", {"task": "holds", "args": {"name": "work"}})
    assert code == 201
    eventually(lambda: (server.folder / "work.started").exists())
    server.ask_to_stop()
    eventually(lambda: refused(server))
    assert "Stopped" not in server.log
    (server.folder / "work.go").touch()
    assert server.end() == 0
    assert "Traceback" not in server.log
    again = start("--no-worker")
    assert again("GET", f"/api/v1/jobs/{job['id']}").body["status"] == "completed"


def test_a_stream_that_is_open_does_not_keep_it_from_stopping(start):
    server = start()
    parts = urlsplit(server.address)
    stream = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    stream.request("GET", "/api/v1/events", headers={"Accept": "text/event-stream"})
    with stream.getresponse() as answer:
        assert answer.status == 200
        server.ask_to_stop()
        assert server.end() == 0
    stream.close()
    assert "Traceback" not in server.log


def test_without_a_worker_what_is_made_waits(start):
    server = start("--no-worker")
    code, job = server("POST", "/api/v1/jobs", {"task": "fine"})
    assert (code, job["status"]) == (201, "pending")
    start()
    eventually(lambda: server("GET", f"/api/v1/jobs/{job['id']}").body["status"] == "completed")


def test_many_who_ask_at_once_are_all_answered(start):
    server = start()
    codes: list[int] = []

    def ask() -> None:
        for _ in range(5):
            codes.append(server("POST", "/api/v1/jobs", {"task": "fine"}).code)
            codes.append(server("GET", "/api/v1/jobs?limit=5").code)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (codes.count(201), codes.count(200)) == (250, 250)
    counts = lambda: server("GET", "/api/v1/jobs/status-counts").body  # noqa: E731
    eventually(lambda: counts()["completed"] == 250)
