"""The probe of a worker: real processes whose loop stands still, whose lease is lost, whose database is away."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from ostinato import Ostinato
from ostinato.app.probing import ProbeAnswer, ProbeServer, Pulse, signs_of_life
from ostinato.core.access import Role
from ostinato.core.errors import StoreUnavailable
from ostinato.engine.lease import MOST_BUGS, Renewing
from tests.cli.test_processes import Process, command
from tests.waiting import PATIENCE, eventually

AN_APP = """
import threading
from ostinato import Ostinato

app = Ostinato("shop")

@app.task
async def freeze() -> None:
    print("The loop is frozen", flush=True)
    threading.Event().wait()
"""
QUICK = {"OSTINATO_LEASE_SECONDS": "2s", "OSTINATO_RENEW_SECONDS": "100ms"}


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "shop.py").write_text(AN_APP)
    return tmp_path


class Probed:
    """A worker, and what its probe answers."""

    def __init__(self, process: Process) -> None:
        self.process = process
        process.wait_for("Probe listens")
        self.address = re.search(r"address=http://(\S+)", process.said)[1]

    def answer(self, path: str, **headers: str) -> tuple[int, str]:
        try:
            asked = urllib.request.Request(f"http://{self.address}{path}", headers=headers)
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_live(self) -> bool:
        return self.answer("/livez")[0] == 200

    def is_ready(self) -> bool:
        return self.answer("/readyz")[0] == 200

    def reasons(self, path: str) -> str:
        return " ".join(json.loads(self.answer(path)[1])["reasons"])

    def command(self, *arguments: str) -> tuple[int, str]:
        """Ask as the probe of a container does."""
        done = subprocess.run(
            [sys.executable, "-m", "ostinato.probe", *arguments],
            env=os.environ | {"OSTINATO_PROBE": self.address.replace("127.0.0.1:", "0.0.0.0:")},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout


@contextmanager
def probed(folder: Path, url: str, *flags: str, **environment: str) -> Iterator[Probed]:
    given = {"OSTINATO_DATABASE_URL": url, "OSTINATO_SHUTDOWN_GRACE": "0s"} | environment
    with command(folder, "worker", "--app", "shop:app", *flags, **given) as process:
        yield Probed(process)


@pytest.mark.system
def test_a_worker_at_work_is_live_and_ready_and_shows_metrics_to_viewers(folder, sqlite_url):
    app = Ostinato("shop", database_url=sqlite_url)
    key = app.scheduler.keys.create("prometheus", Role.VIEWER, by="tests").text
    app.close()
    with probed(folder, sqlite_url, "--probe", "0", OSTINATO_AUTH_REQUIRED="on") as worker:
        eventually(worker.is_ready)
        assert worker.answer("/livez") == (200, '{"live": true, "reasons": []}')
        assert worker.command("live") == (0, '{"live": true, "reasons": []}\n')
        assert worker.command("ready") == (0, '{"ready": true, "reasons": []}\n')
        assert worker.answer("/jobs")[0] == 404
        code, refused = worker.answer("/metrics")
        assert code == 401
        assert "needs a credential" in refused
        assert worker.answer("/metrics", authorization="Bearer wrong")[0] == 401
        code, text = worker.answer("/metrics", authorization=f"Bearer {key}")
        assert code == 200
        assert "\nostinato_workers 1.0\n" in text
        assert '\nostinato_refused_credentials_total{credential="none"} 1.0\n' in text
        worker.process.stop()
        assert worker.process.end() == 0
        code, text = worker.command("live")
        assert code == 1
        assert "The probe does not answer" in text


@pytest.mark.system
def test_a_frozen_loop_is_not_live_and_a_lost_lease_is_not_ready(folder, database_url):
    with probed(folder, database_url, "--probe", "0", **QUICK) as worker:
        eventually(worker.is_ready)
        app = Ostinato("shop", database_url=database_url)
        app.enqueue([app.call("freeze")], allow_unknown=True)
        eventually(lambda: not worker.is_live())
        assert "The event loop has stood still" in worker.reasons("/livez")
        assert worker.command("live")[0] == 1
        eventually(worker.is_ready)  # the thread of the lease goes on
        # a sweeper closes a worker that it takes for dead
        (mine,) = app.scheduler.workers()
        app.parts.store.database.load(
            "-- name: close_it\nUPDATE {workers} SET closed_at = :now, closed_as = 'lost' WHERE id = :id"
        )
        with app.parts.store.database.write() as tx:
            tx.run("close_it", now=app.now(), id=mine.id)
        eventually(lambda: not worker.is_ready())
        assert worker.reasons("/readyz") == "This worker holds no lease."
        app.close()


@pytest.mark.system
@pytest.mark.postgres
def test_without_its_database_a_worker_is_live_and_not_ready(folder, private_postgres):
    url = private_postgres.url()
    private_postgres.stop()
    with probed(folder, url, "--probe", "0", "--migrate", **QUICK) as worker:
        worker.process.wait_for("Database unavailable")
        eventually(worker.is_live)
        assert worker.reasons("/readyz").startswith("This worker has not started")
        assert worker.answer("/metrics")[0] == 503
        private_postgres.start()
        eventually(worker.is_ready)
        private_postgres.stop()
        eventually(lambda: not worker.is_ready())  # the lease has ended by now
        eventually(worker.is_live)
        assert "\nostinato_store_up 0.0\n" in worker.answer("/metrics")[1]
        private_postgres.start()
        eventually(worker.is_ready)
        eventually(worker.is_live)


@pytest.mark.system
def test_beyond_this_host_metrics_need_auth(folder, sqlite_url):
    with probed(folder, sqlite_url, OSTINATO_PROBE="0.0.0.0:0") as worker:
        worker.address = worker.address.replace("0.0.0.0", "127.0.0.1")
        eventually(worker.is_ready)
        code, refused = worker.answer("/metrics", host="127.0.0.1")
        assert code == 403
        assert "Without auth" in refused


@pytest.mark.system
def test_an_address_that_cannot_be_used_is_told_in_a_sentence(folder, sqlite_url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with command(folder, "worker", "--probe", port, OSTINATO_DATABASE_URL=sqlite_url) as worker:
            assert worker.end() == 2
    assert f"The probe cannot listen on {port}: Address already in use." in worker.said
    with command(folder, "worker", "--probe", "http://here", OSTINATO_DATABASE_URL=sqlite_url) as worker:
        assert worker.end() == 2
    assert "probe cannot be 'http://here'" in worker.said
    assert "Traceback" not in worker.said


def test_the_command_imports_nothing_of_ostinato_and_says_how_to_use_it():
    shown = "import sys, ostinato.probe; print(*sorted(n for n in sys.modules if n.startswith(('ostinato', 'http'))))"
    told = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=PATIENCE)
    assert told.stdout.split() == ["ostinato", "ostinato.probe"]
    for wrong in ([], ["alive"], ["live", "x:y"], ["live", "1", "2"]):
        done = subprocess.run(
            [sys.executable, "-m", "ostinato.probe", *wrong], capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stdout.split()[0]) == (2, "Usage:")


# -- the rules


@pytest.mark.parametrize(
    ("silent", "overdue", "reasons"),
    [(0.3, 0.0, 0), (30.0, 30.0, 0), (30.1, 0.0, 1), (0.0, 30.1, 1), (31.0, float("inf"), 2)],
)
def test_a_worker_is_live_while_loop_and_lease_thread_turn(silent, overdue, reasons):
    assert len(signs_of_life(silent, overdue, 30.0)) == reasons


def test_an_answer_is_503_as_long_as_something_is_against_it():
    assert ProbeAnswer.of("live", []) == ProbeAnswer(200, b'{"live": true, "reasons": []}')
    assert ProbeAnswer.of("ready", ["No."]) == ProbeAnswer(503, b'{"ready": false, "reasons": ["No."]}')


class SlowLease:
    """A lease whose renewal waits, as for a database that hangs, or fails."""

    closed, trusted = False, True

    def __init__(self, error: Exception | None = None) -> None:
        self.asked, self.answered, self._error = threading.Event(), threading.Event(), error

    def renew(self, running: int) -> None:
        self.asked.set()
        if self._error is not None:
            raise self._error
        assert self.answered.wait(PATIENCE)


def renewing(lease: SlowLease) -> Renewing:
    return Renewing(lease, timedelta(milliseconds=10), lambda: 0, lambda: None, lambda error: None)


def test_a_renewal_that_waits_for_the_database_is_in_time():
    lease = SlowLease()
    thread = renewing(lease)
    assert lease.asked.wait(PATIENCE)
    assert thread.overdue() == 0
    lease.answered.set()
    thread.close()
    assert thread.overdue() == 0  # it was asked to end


def test_a_thread_of_the_lease_that_has_ended_is_overdue_for_ever():
    away, bug = renewing(SlowLease(StoreUnavailable("away"))), renewing(SlowLease(ValueError("a bug")))
    eventually(lambda: bug.overdue() == float("inf"))
    assert MOST_BUGS > 1
    assert away.overdue() < float("inf")
    away.close()


def test_more_connections_than_it_has_places_for_are_closed():
    async def story() -> None:
        pulse = Pulse()
        server = ProbeServer("127.0.0.1:0", pulse, 30.0)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = server.server_address[:2]
        held = [socket.create_connection(address) for _ in range(32)]
        eventually(lambda: server._places._value == 0)
        with socket.create_connection(address) as late:
            late.settimeout(PATIENCE)
            assert late.recv(1) == b""
        for each in held:
            each.close()
        eventually(lambda: server._places._value == 32)
        pulse.end()
        server.shutdown()
        server.server_close()

    asyncio.run(story())
