"""Processes that start while PostgreSQL is away: they wait, hear signals, and go on by themselves (G11, G14)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.servers import PostgresServer
from tests.waiting import PATIENCE, eventually

AN_APP = """
from ostinato import Ostinato

app = Ostinato("shop")

@app.task(every="1h", first_run="now")
def tick() -> None: ...
"""
WAITS = "Database unavailable; retrying until it answers"


class Started:
    """A command in a process of its own; its output goes to a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", "from ostinato.program import main; main()", *arguments],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text()

    def has_said(self, text: str) -> None:
        eventually(lambda: text in self.log or self.popen.poll() is not None)
        assert text in self.log, self.log


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    (tmp_path / "shop.py").write_text(AN_APP)
    made: list[Started] = []

    def command(*arguments: str) -> Started:
        made.append(Started(tmp_path, *arguments))
        return made[-1]

    yield command
    for each in made:
        each.popen.kill()
        each.popen.wait()
        assert "Traceback" not in each.log


@pytest.fixture
def away(private_postgres: PostgresServer) -> PostgresServer:
    """A PostgreSQL that is stopped."""
    private_postgres.stop()
    return private_postgres


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        yield server


def asked(url: str) -> tuple[int, dict[str, object]]:
    """The status and the JSON of an answer."""
    try:
        with urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_worker_that_starts_before_postgresql_waits_and_goes_on(start, away: PostgresServer):
    worker = start("worker", "--app", "shop:app", "--database", away.url(), "--migrate")
    worker.has_said(WAITS)
    away.start()
    worker.has_said("Job completed successfully")
    assert worker.log.count(WAITS) == 1, worker.log
    assert "Database available" in worker.log
    worker.popen.terminate()
    assert worker.popen.wait(PATIENCE) == 0


def test_a_server_answers_that_it_is_not_ready_meanwhile(start, away: PostgresServer):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve = start("serve", "--app", "shop:app", "--database", away.url(), "--migrate", "--no-worker", "--port", port)
    serve.has_said(WAITS)
    here = f"http://127.0.0.1:{port}"
    assert eventually(lambda: asked(f"{here}/healthz")) == (200, {"status": "ok"})
    reason = "The database is unavailable; this process waits for it."
    assert asked(f"{here}/readyz") == (503, {"ready": False, "reasons": [reason]})
    assert asked(f"{here}/api/v1/jobs") == (503, {"detail": reason})
    away.start()
    eventually(lambda: asked(f"{here}/readyz") == (200, {"ready": True, "reasons": []}))
    assert asked(f"{here}/api/v1/jobs")[1]["total"] == 1
    serve.popen.terminate()
    assert serve.popen.wait(PATIENCE) == 0


@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")], ids=lambda each: each[0])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(start, away: PostgresServer, command, number):
    waiting = start(*command, "--app", "shop:app", "--database", away.url())
    waiting.has_said(WAITS)
    waiting.popen.send_signal(number)
    assert waiting.popen.wait(PATIENCE) == 0
    assert waiting.log.rstrip().endswith("Stopped")


def test_a_signal_ends_a_connection_that_hangs(start, silent: socket.socket):
    url = f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres?connect_timeout=600"
    waiting = start("worker", "--app", "shop:app", "--database", url)
    with silent.accept()[0]:
        waiting.popen.terminate()
        assert waiting.popen.wait(PATIENCE) == 0  # less than the connect_timeout
    assert "Stopped" in waiting.log


def test_other_commands_exit_with_5(start, away: PostgresServer):
    asking = start("job", "list", "--database", away.url())
    assert asking.popen.wait(PATIENCE) == 5
    assert WAITS not in asking.log


def test_what_does_not_pass_ends_the_start(start, private_postgres: PostgresServer):
    worker = start("worker", "--app", "shop:app", "--database", private_postgres.url())
    assert worker.popen.wait(PATIENCE) == 5
    assert "run `ostinato db upgrade`" in worker.log
