"""`ostinato serve` with HTTP in a process of its own: what happens to one process when the other one ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.server import AN_APP, PATIENCE, Server
from tests.waiting import eventually

BREAKS_APART = "import sys\nassert 'ostinato.app.http_main' not in sys.orig_argv, 'not here'\n" + AN_APP


@pytest.fixture
def start(tmp_path, empty_database_url) -> Iterator:
    started: list[Server] = []

    def start(kind: type[Server] = Server, **environment: str) -> Server:
        started.append(kind(tmp_path, empty_database_url, **{"OSTINATO_HTTP_PROCESS": "on"} | environment))
        eventually(started[-1].ready)
        return started[-1]

    yield start
    for server in started:
        server.kill()


def pid_of(server: Server) -> int:
    return server._process.pid


def children_of(pid: int) -> list[int]:
    """A thread starts them, and each thread has a list of its own."""
    return [int(each) for file in Path(f"/proc/{pid}/task").glob("*/children") for each in file.read_text().split()]


def children(server: Server) -> list[int]:
    """Children that run Python: a moment after their start they are still copies of their parent."""
    found = children_of(pid_of(server))
    return [each for each in found if "app.http_main" in Path(f"/proc/{each}/cmdline").read_text()]


def http_process(server: Server) -> int:
    return eventually(lambda: children(server))[0]


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def text(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(server.address + path, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def completed(server: Server, job: dict) -> bool:
    return server("GET", f"/api/v1/jobs/{job['id']}").body["status"] == "completed"


def test_an_http_process_that_dies_is_started_again_and_work_goes_on(start):
    server = start()
    job = server("POST", "/api/v1/jobs", {"task": "holds", "args": {"name": "work"}}).body
    eventually(lambda: (server.folder / "work.started").exists())
    first = http_process(server)
    os.kill(first, signal.SIGKILL)
    (server.folder / "work.go").touch()
    eventually(lambda: completed(server, job))  # the request waits in the socket until it is answered
    assert http_process(server) != first
    assert 'HTTP process ended; starting it again  why="signal 9" in_seconds=1.0' in server.log
    assert server.terminate() == 0
    assert "Traceback" not in server.log


def test_an_http_process_ends_with_the_process_of_its_engine(start):
    server = start()
    assert server("GET", "/healthz").code == 200
    child = http_process(server)
    server.kill()
    eventually(lambda: not is_alive(child))
    assert "Traceback" not in server.log


def test_a_stop_ends_both_processes(start):
    server = start()
    assert server("GET", "/healthz").code == 200
    child = http_process(server)
    assert server.terminate() == 0
    assert not is_alive(child)
    assert "HTTP process ended" not in server.log


def test_a_stop_of_all_processes_at_once_is_no_failure(start):
    """As a service manager does it that signals each process."""
    server = start()
    assert server("GET", "/healthz").code == 200
    child = http_process(server)
    server.ask_to_stop()
    os.kill(child, signal.SIGTERM)
    assert server.end() == 0
    assert not is_alive(child)
    assert "Traceback" not in server.log


def test_an_engine_that_does_not_answer_is_not_ready(start):
    server = start()
    eventually(lambda: server("GET", "/readyz").code == 200)
    os.kill(pid_of(server), signal.SIGSTOP)
    try:
        silent = eventually(lambda: (found := server("GET", "/readyz")).code == 503 and found)
        assert silent.body["reasons"] == ["The engine's process does not answer."]
        assert text(server, "/metrics")[0] == 503
        assert server("GET", "/healthz").code == 200
        assert server("GET", "/api/v1/jobs").code == 200
    finally:
        os.kill(pid_of(server), signal.SIGCONT)
    eventually(lambda: server("GET", "/readyz").code == 200)


def test_metrics_tell_what_the_process_of_the_engine_has_measured(start):
    server = start()
    for _ in range(3):
        assert server("POST", "/api/v1/jobs", {"task": "fine"}).code == 201
    eventually(lambda: "ostinato_claims_total 3.0" in text(server, "/metrics")[1])
    eventually(lambda: 'duration_seconds_count{task="fine"} 3.0' in text(server, "/metrics")[1])
    told = text(server, "/metrics")[1]
    assert 'ostinato_executions_total{outcome="completed",task="fine"} 3.0' in told
    memory = [line for line in told.splitlines() if "process_resident_memory_bytes " in line and line[0] != "#"]
    assert [line.split()[0] for line in memory] == [
        "process_resident_memory_bytes",
        "ostinato_http_process_resident_memory_bytes",
    ]


def test_an_http_process_that_cannot_start_stops_no_work(start):
    class Broken(Server):
        APP = BREAKS_APART + '\napp.schedule(holds.bind(name="work"), every="1s", first_run="now")\n'

    server = start(Broken)
    eventually(lambda: server.log.count("HTTP process ended") > 1)
    assert 'why="exit code 2" in_seconds=2.0' in server.log
    assert "The HTTP process cannot serve: The module seed cannot be imported: AssertionError: not here" in server.log
    eventually(lambda: (server.folder / "work.started").exists())
    assert server.terminate() == 0
    assert "Traceback" not in server.log


def test_one_process_is_a_setting(start):
    server = start(OSTINATO_HTTP_PROCESS="off")
    assert server("GET", "/healthz").code == 200
    assert not children(server)
    assert "  processes one: it also serves HTTP (OSTINATO_HTTP_PROCESS=off)" in server.log


def test_the_lines_of_both_processes_are_whole(tmp_path, empty_sqlite_url):
    """Each write to a socket of packets is a packet: a line in two writes could be cut by the other process."""
    (tmp_path / "seed.py").write_text(AN_APP)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", "from ostinato.program import main; main()", "serve", "--app", "seed:app",
               "--port", "0", "--database", empty_sqlite_url]  # fmt: skip
    quiet = subprocess.DEVNULL
    with ours, subprocess.Popen(command, cwd=tmp_path, stdin=quiet, stdout=quiet, stderr=theirs) as process:
        theirs.close()
        try:
            ours.settimeout(PATIENCE)
            packets = [ours.recv(65536)]
            os.kill(eventually(lambda: children_of(process.pid))[0], signal.SIGKILL)
            packets.append(ours.recv(65536))
        finally:
            process.terminate()
        while packet := ours.recv(65536):
            packets.append(packet)
    assert [b"Starting scheduler" in packets[0], b"HTTP process ended" in packets[1]] == [True, True]
    assert all(packet.endswith(b"\n") and packet.count(b"\n") == 1 for packet in packets)
