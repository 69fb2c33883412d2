"""Real worker processes on a real database, and a last look at what they left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import pytest

from ostinato import Handle, Ostinato
from ostinato.core.model import Event, Execution, Live
from ostinato.core.read_models import WorkerRow
from tests.system.workshop import make_app
from tests.waiting import PATIENCE, eventually

T = TypeVar("T")
W = TypeVar("W", bound="Workshop")

PROGRAM = Path(__file__).parent / "workshop.py"
# They poll more rarely than anybody waits: a notification that does not come is noticed.
SHORT = {"lease": "2s", "sweep": "500ms", "poll_interval": "10m", "shutdown_grace": "10s"}


class Mark(NamedTuple):
    """What a task left in the file."""

    what: str
    job_id: UUID
    attempt: int
    pid: int
    at: float


class Process:
    """One worker process."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen, self._log = popen, log
        self.pid = popen.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """As abruptly as can be."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def terminate(self) -> None:
        self.popen.terminate()

    def exit_code(self, seconds: float = PATIENCE) -> int:
        return self.popen.wait(seconds)


class Workshop:
    """A database, an app that enqueues into it, and the processes that work on it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app: Ostinato = make_app(database_url=url, **SHORT)
        self.app.open(upgrade=True)
        self.processes: list[Process] = []

    # -- who works

    def start(self, count: int = 1, **settings: object) -> list[Process]:
        """Start workers; each is there when this returns."""
        new = [self.spawn(settings) for _ in range(count)]
        eventually(lambda: {process.pid for process in new} <= {row.pid for row in self.workers()})
        return new

    def start_one(self, **settings: object) -> Process:
        return self.start(**settings)[0]

    def spawn(self, settings: dict[str, object]) -> Process:
        given = {"database_url": self.url} | SHORT | settings
        log = self.folder / f"log-{len(self.processes)}"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self.folder), json.dumps(given)],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        process = Process(popen, log)
        self.processes.append(process)
        return process

    def workers(self) -> list[WorkerRow]:
        return self.app.scheduler.workers()

    def worker_of(self, process: Process) -> WorkerRow:
        return next(row for row in self.workers() if row.pid == process.pid)

    # -- work

    def enqueue(self, task: str, count: int = 1, **args: object) -> list[Handle]:
        known = self.app.registry.get(task)
        return self.app.enqueue([known.bind(**args) for _ in range(count)])

    def enqueue_one(self, task: str, **args: object) -> Handle:
        return self.enqueue(task, **args)[0]

    def release(self) -> None:
        """Let go what holds."""
        (self.folder / "release").touch()

    def marks(self, what: str) -> list[Mark]:
        try:
            lines = (self.folder / "marks").read_text().splitlines()
        except FileNotFoundError:
            return []
        fields = [line.split() for line in lines]
        return [Mark(w, UUID(j), int(a), int(p), float(t)) for w, j, a, p, t in fields if w == what]

    def wait_for_marks(self, what: str, count: int = 1) -> list[Mark]:
        eventually(lambda: len(self.marks(what)) >= count)
        return self.marks(what)

    # -- what came of it

    def history(self, handle: Handle) -> list[Execution]:
        """The executions of a job that have ended, the oldest first."""
        return self.app.parts.store.history.of_job(handle.id, 1000)[::-1]

    def results(self, handle: Handle) -> list[str]:
        return [ended.outcome.value for ended in self.history(handle)]

    def live(self) -> list[Live]:
        return self.app.parts.store.history.live(10_000)

    def running(self) -> list[Live]:
        return [live for live in self.live() if live.worker_id is not None]

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.app.parts.store.history.events(10_000) if event.kind == kind]

    def all_done(self, handles: list[Handle], seconds: float = PATIENCE) -> None:
        """Wait until each of these jobs has completed, once."""
        counts = self.app.scheduler.status_counts
        eventually(lambda: counts().get("completed", 0) >= len(handles), seconds)
        completed = Counter(
            ended.job_id for ended in self.app.parts.store.history.page(100_000) if ended.outcome == "completed"
        )
        assert [completed[handle.id] for handle in handles] == [1] * len(handles)

    # -- the end

    def check(self) -> None:
        """What must be true after every test: it adds up (G9, G4), and nobody printed a traceback (G14)."""
        assert self.app.scheduler.problems() == []
        for process in self.processes:
            assert "Traceback" not in process.log, process.log

    def close(self) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
        self.app.close()


@pytest.fixture
def workshop(database_url: str, tmp_path: Path) -> Iterator[Workshop]:
    yield from opened(Workshop(database_url, tmp_path))


@pytest.fixture
def private_workshop(private_postgres: Any, tmp_path: Path) -> Iterator[Workshop]:
    """On a PostgreSQL that the test may mistreat."""
    yield from opened(Workshop(private_postgres.url(), tmp_path))


def opened(workshop: W) -> Iterator[W]:
    """For a test, and looked over when it is done."""
    try:
        yield workshop
        for process in workshop.processes:
            if process.popen.poll() is None:
                process.kill()
        workshop.check()
    finally:
        workshop.close()
