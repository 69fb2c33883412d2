"""`serve` and `worker` as real processes: what they say, how they stop."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ostinato import Ostinato
from tests.waiting import PATIENCE

pytestmark = pytest.mark.system

AN_APP = """
import threading
from ostinato import Ostinato

app = Ostinato("shop")

@app.task(every="1h", first_run="now")
def tick() -> None: ...

@app.task(cron="0 9 * * mon-fri", timezone="Europe/Paris")
def report() -> None: ...

@app.task
def hang() -> None:
    threading.Event().wait()
"""


class Process:
    """A command that stays, and its lines."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ostinato", *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"OSTINATO_SHUTDOWN_GRACE": "0s", "PYTHONUNBUFFERED": "1"} | environment,
        )  # fmt: skip
        self.said = ""

    def wait_for(self, text: str) -> str:
        """Read on until it has said this."""
        while text not in self.said:
            line = self._process.stdout.readline()
            assert line, f"it ended without saying {text!r}:\n{self.said}"
            self.said += line
        return self.said

    def stop(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        self.said += self._process.stdout.read()
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@contextmanager
def command(folder: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    process = Process(folder, *arguments, **environment)
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "shop.py").write_text(AN_APP)
    return tmp_path


def test_a_worker_says_what_is_there_runs_and_stops_with_exit_code_0(folder, database_url):
    flags = ("--app", "shop:app", "--database", database_url, "--migrate", "--concurrency", "2")
    with command(folder, "worker", *flags) as worker:
        worker.wait_for("Job completed successfully")
        worker.stop()
        assert worker.end() == 0
        said = worker.said
    shown = database_url.removeprefix("sqlite:///") if "sqlite" in database_url else database_url
    assert f"  database  {shown}" in said
    assert "  timezone  UTC" in said
    assert "  worker    all queues, 2 at once" in said
    assert "  jobs      2 created" in said
    assert "tick    every hour" in said
    assert "at 09:00 on weekdays, Europe/Paris" in said
    assert "Stopping" in said
    assert "Traceback" not in said


def test_a_worker_until_idle_runs_what_is_due_and_ends(folder, database_url):
    flags = ("--app", "shop:app", "--database", database_url, "--migrate", "--until-idle")
    with command(folder, "worker", *flags) as worker:
        assert worker.end() == 0
    assert "Job completed successfully" in worker.said
    assert "Stopping  why=idle" in worker.said


def test_a_worker_without_an_app_runs_built_in_tasks(folder, tmp_path):
    environment = {"OSTINATO_DATABASE_URL": f"sqlite:///{tmp_path}/here.db", "OSTINATO_ALLOW_COMMANDS": "on"}
    add = ("job", "add", "command", "--arg", 'argv=["true"]', "--now")
    for arguments in (add, ("worker", "--until-idle")):
        with command(folder, *arguments, **environment) as process:
            assert process.end() == 0, process.said
    assert "Job completed successfully" in process.said
    assert "task=command" in process.said


def test_until_idle_needs_our_own_workers(folder):
    environment = {"OSTINATO_REDIS_URL": "redis://127.0.0.1:1"}
    with command(folder, "worker", "--app", "shop:app", "--engine", "rq", "--until-idle", **environment) as worker:
        assert worker.end() == 2
    assert "--until-idle needs the engine local" in worker.said


def test_serve_without_an_app_serves_http(folder):
    with command(folder, "serve", "--port", "0", OSTINATO_DATABASE_URL="sqlite:///here.db") as serve:
        serve.wait_for("Starting scheduler")
        url = re.search(r"  http      (http://127.0.0.1:\d+)", serve.said)[1]
        with urllib.request.urlopen(f"{url}/api/v1/jobs", timeout=PATIENCE) as answer:
            assert json.load(answer)["jobs"] == []
        serve.stop(signal.SIGINT)
        assert serve.end() == 0
        assert f"  database  {folder}/here.db" in serve.said
        assert "  jobs      none declared" in serve.said
        assert "Traceback" not in serve.said


def test_a_port_that_is_taken_is_told_in_a_sentence(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with command(folder, "serve", "--port", port) as serve:
            assert serve.end() == 2
    assert f"HTTP cannot listen on 127.0.0.1:{port}: Address already in use." in serve.said
    assert "Traceback" not in serve.said


def test_serve_without_a_worker_runs_nothing(folder):
    with command(folder, "serve", "--port", "0", "--app", "shop:app", "--no-worker") as serve:
        serve.wait_for("Starting scheduler")
        serve.stop()
        assert serve.end() == 0
        assert "Executing job" not in serve.said
        assert "worker    none here" in serve.said


def test_a_second_signal_stops_at_once_and_nothing_is_lost(folder):
    app = Ostinato("shop", database_url=f"sqlite:///{folder}/ostinato.db")
    (handle,) = app.enqueue([app.call("hang")], allow_unknown=True)
    flags = ("--app", "shop:app")
    with command(folder, "worker", *flags, OSTINATO_SHUTDOWN_GRACE="10m") as worker:
        worker.wait_for("task=hang")
        worker.stop()
        worker.wait_for("Stopping")
        worker.stop()
        assert worker.end() == 0
        assert "Traceback" not in worker.said
    (waiting,) = app.executions.list(job=handle.id)
    assert (waiting.status, waiting.attempt) == ("queued", 0)
    app.close()


def test_a_stop_that_is_asked_for_while_it_starts_is_heard(folder):
    with command(folder, "worker", "--app", "shop:app") as worker:
        worker.wait_for("Ostinato")
        worker.stop()
        assert worker.end() == 0
        assert "Stopped" in worker.said


def test_warnings_about_settings_are_logged(folder):
    with command(folder, "worker", "--app", "shop:app", OSTINATO_CONCURENCY="3") as worker:
        worker.wait_for("Starting scheduler")
        worker.stop()
        assert worker.end() == 0
    assert "WARN  The environment variable OSTINATO_CONCURENCY is not a setting and was ignored" in worker.said
    assert "did you mean OSTINATO_CONCURRENCY?" in worker.said


def test_logs_as_json_have_no_banner_in_between(folder):
    with command(folder, "worker", "--app", "shop:app", OSTINATO_LOG_FORMAT="json") as worker:
        worker.wait_for("Job completed successfully")
        worker.stop()
        assert worker.end() == 0
    lines = [json.loads(line) for line in worker.said.splitlines()]
    assert lines[0]["event"] == "Starting scheduler"
    assert lines[0]["database"] == f"{folder}/ostinato.db"
