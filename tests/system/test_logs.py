"""Logs of real runs, in a real server: followed, not mixed, capped, and there after a crash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx2
import psutil
import pytest

from ostinato import Handle, Ostinato
from ostinato.core.read_models import LogPage
from tests.acceptance.server import USUAL
from tests.system.conftest import PATIENCE
from tests.waiting import eventually

pytestmark = pytest.mark.system

HERE = Path(__file__).parent
MIB = 1024 * 1024
TASKS = ["on_thread", "on_loop", "in_process"]


class Server:
    """`ostinato serve` with the talkative app, and the same app here to enqueue and to read."""

    def __init__(self, url: str, folder: Path) -> None:
        self.app = Ostinato("talkative", database_url=url)
        self.app.open(upgrade=True)
        self._out = (folder / "err").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from ostinato.program import main; main()", "serve", "--app", "talkative:app",
             "--port", "0", "--concurrency", "20"],
            cwd=HERE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._out,
            env=os.environ | USUAL | {"OSTINATO_DATABASE_URL": url},
        )  # fmt: skip
        self.folder = folder

    def begin(self) -> None:
        """Until its worker is there."""
        eventually(self.app.scheduler.workers, 2 * PATIENCE)

    @property
    def address(self) -> str:
        found = re.search(r"http=(http://\S+)", (self.folder / "err").read_text())
        assert found is not None
        return found[1]

    def enqueue(self, task: str, **args: object) -> Handle:
        return self.app.enqueue([self.app.call(task, **args)])[0]

    def running(self, handle: Handle) -> UUID:
        """The id of its execution, once it runs."""
        return eventually(lambda: [run.id for run in self.app.executions.list(handle.id) if run.status == "running"])[0]

    def log(self, execution_id: UUID, level: str | None = None) -> LogPage:
        return self.app.executions.log(execution_id, level=level, limit=5000)

    def texts(self, execution_id: UUID, level: str | None = None) -> list[str]:
        return [line.text for line in self.log(execution_id, level).lines]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._out.close()
        self.app.close()


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    server = Server(database_url, tmp_path)
    try:
        server.begin()
        yield server
        assert server.app.scheduler.problems() == []
    finally:
        server.close()


def spoken(run: int, lines: int) -> set[str]:
    return {f"{run} {what} {n}" for n in range(lines) for what in ("printed", "said", "logged")}


def in_order(texts: list[str], run: int, what: str, lines: int) -> bool:
    return [text for text in texts if what in text] == [f"{run} {what} {n}" for n in range(lines)]


@pytest.mark.parametrize("task", TASKS)
def test_after_a_crash_what_was_written_is_there(server: Server, task: str):
    handle = server.enqueue(task, run=1, lines=100, path="/nowhere/at/all")
    run = server.running(handle)
    own = spoken(1, 100)
    eventually(lambda: own <= set(server.texts(run)))  # while it runs
    half = {"done": 100, "of": 200, "message": "half"}
    eventually(lambda: half.items() <= (server.app.executions.get(run).progress or {}).items())
    server.process.kill()
    server.process.wait(PATIENCE)
    texts = server.texts(run)
    assert all(in_order(texts, 1, what, 100) for what in ("printed", "said", "logged"))
    assert set(texts) - own == ({"1 of a subprocess"} if task == "in_process" else set())
    assert server.texts(run, "warning") == [f"1 logged {n}" for n in range(100)]


def test_the_lines_of_fifty_runs_do_not_mix(server: Server):
    """On the loop, on threads and in processes, twenty at once."""
    handles = [server.enqueue(TASKS[run % 3], run=run, lines=30) for run in range(50)]
    for run, handle in enumerate(handles):
        texts = server.texts(handle.wait(2 * PATIENCE).id)
        assert set(texts) - {f"{run} of a subprocess"} == spoken(run, 30)
        assert all(in_order(texts, run, what, 30) for what in ("printed", "said", "logged"))
        assert len(texts) == 90 + (run % 3 == 2)


@pytest.mark.parametrize("task", ["floods_thread", "floods_process"])
def test_a_hundred_megabytes_are_cut_to_ten_and_the_cut_is_told(server: Server, task: str):
    worker = psutil.Process(server.process.pid)
    before, highest, over = worker.memory_info().rss, 0, threading.Event()

    def look() -> None:
        nonlocal highest
        while not over.wait(0.01):
            highest = max(highest, worker.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        ended = server.enqueue(task, megabytes=100).wait(2 * PATIENCE)
    finally:
        over.set()
        looking.join()
    assert ended.outcome == "completed"
    page, kept = server.log(ended.id), 0
    while page.lines:
        assert {line.text for line in page.lines} == {"x" * 1023}
        kept += len(page.lines)
        page = server.app.executions.log(ended.id, after=page.next, limit=5000)
    assert kept == 10 * 1024
    assert page.cut == 90 * MIB
    assert highest > 0
    assert highest - before < 64 * MIB
    answer = httpx2.get(
        f"{server.address}/api/v1/executions/{ended.id}/log", headers={"Accept": "text/plain"}, timeout=60
    )
    assert answer.text.splitlines()[-1] == f"… {90 * MIB:,} bytes were cut: the log was full …"


@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_followed_over_http(server: Server, task: str):
    path = server.folder / "go-on"
    run = server.running(server.enqueue(task, run=7, lines=3, path=str(path)))
    told: list[tuple[str, dict]] = []
    kind = "line"
    with httpx2.stream(
        "GET", f"{server.address}/api/v1/executions/{run}/log",
        headers={"Accept": "text/event-stream"}, timeout=PATIENCE,
    ) as stream:  # fmt: skip
        for text in stream.iter_lines():
            if text.startswith("event: "):
                kind = text.removeprefix("event: ")
            elif text.startswith("data: "):
                told.append((kind, json.loads(text.removeprefix("data: "))))
                kind = "line"
            texts = {data["text"] for each, data in told if each == "line"}
            half = [data for each, data in told if each == "progress" and data.get("message") == "half"]
            if spoken(7, 3) <= texts and half:
                path.touch()  # until then nothing of this was the end
    assert told[-1] == ("end", {"status": "completed", "outcome": "completed"})
    assert {"done": 3, "of": 6, "message": "half"}.items() <= half[0].items()
    assert [data["number"] for each, data in told if each == "line"] == list(range(1, len(texts) + 1))
