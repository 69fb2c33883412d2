"""Nothing finished is done again (G15): a database that is read-only, locked, full or restarted under a worker.

Judged by bodies, which the witness counts: the database only knows what it was told.

    ROUNDS=50 pytest -m soak tests/system/test_faults.py      each fault so often, on each database
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ostinato import Handle
from ostinato.core.errors import StoreError
from tests import faults
from tests.bodies import bodies, done_twice
from tests.servers import PostgresServer
from tests.system.conftest import Workshop
from tests.waiting import eventually

FAULTS = ("read-only", "locked", "full", "restarted")
FAULT_LASTS = 1.5  # seconds
DEADLINE = 1.0  # seconds that a worker waits for the database: shorter than a fault
SETTINGS = {
    "lease": "30s",
    "poll_interval": "500ms",
    "concurrency": 40,
    "deadline": DEADLINE,
    "run_log": "off",
}
AT_ONCE = 10
QUICK, SLOW = 0.02, 0.5  # seconds that a body takes: some end in the middle of a fault
SMALL = 64  # MiB
EVERYDAY, SOAK = 1, int(os.environ.get("ROUNDS", "50"))

Fault = Callable[[], AbstractContextManager[None]]


class Scene:
    """A workshop on a database that can be mistreated, and the ways to do it."""

    def __init__(self, workshop: Workshop, ways: dict[str, Fault], witness: Path) -> None:
        self.workshop, self.ways, self.witness = workshop, ways, witness
        self.made: list[Handle] = []

    def enqueue(self) -> None:
        """As many as the database takes: one that is just failing takes none."""
        try:
            for seconds in (QUICK, SLOW):
                self.made += self.workshop.enqueue("charges", AT_ONCE // 2, seconds=seconds)
        except StoreError:
            time.sleep(0.05)

    def go_through(self, fault: str) -> None:
        """Work before, in the middle of, and after a fault."""
        self._load(0.3)
        with self.ways[fault]():
            if fault in ("restarted", "locked"):
                time.sleep(FAULT_LASTS)
            else:
                self._load(FAULT_LASTS)
        self._load(0.3)
        eventually(self._all_done)

    def _load(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.enqueue()
            time.sleep(0.05)

    def _all_done(self) -> bool:
        return self.workshop.live() == []

    def figures(self) -> dict[str, int]:
        """What came of it, counted by bodies and by history."""
        results = Counter(ended.outcome.value for ended in self._history())
        twice = done_twice(self.witness)
        return {
            "jobs": len(self.made), "bodies": len(bodies(self.witness)), "done_twice": len(twice),
            "completed": results["completed"], "lost": results["lost"],
            "releases": sum(ended.releases for ended in self._history()),
        }  # fmt: skip

    def _history(self) -> list:
        return self.workshop.app.parts.store.history.page(1_000_000)


@pytest.fixture
def witness(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "witness"
    folder.mkdir()
    monkeypatch.setenv("OSTINATO_WITNESS", str(folder))
    return folder


@contextmanager
def small_disk(folder: Path) -> Iterator[faults.SmallDisk | None]:
    """A small disk, for root; others do without."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        yield None
        return
    disk = faults.SmallDisk(folder, SMALL)
    try:
        yield disk
    finally:
        disk.close()


@pytest.fixture
def on_sqlite(tmp_path: Path, witness: Path) -> Iterator[Scene]:
    with small_disk(tmp_path / "disk") as disk:
        file = (disk.folder if disk else tmp_path) / "ostinato.db"
        ways: dict[str, Fault] = {
            "read-only": lambda: told_read_only(tmp_path),
            "locked": lambda: faults.locked_file(file),
            "restarted": lambda: faults.killed_writer(file),
        }
        if disk:
            ways["full"] = disk.full
        yield from played(Workshop(f"sqlite:///{file}", tmp_path), ways, witness)


@pytest.fixture
def on_postgres(private_postgres: PostgresServer, tmp_path: Path, witness: Path) -> Iterator[Scene]:
    url = private_postgres.url()
    workshop = Workshop(url, tmp_path)
    ways: dict[str, Fault] = {
        "read-only": lambda: faults.standby(url),
        "locked": lambda: faults.locked_table(url),
        "restarted": lambda: restarted(private_postgres),
    }
    with small_disk(private_postgres.folder / "disk") as disk:
        if disk:
            space = disk.folder / "tables"
            space.mkdir()
            shutil.chown(space, "nobody", "nogroup")
            faults.move_tables(url, space)
            ways["full"] = disk.full
        yield from played(workshop, ways, witness)
        if disk:
            private_postgres.stop()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def scene(request: pytest.FixtureRequest) -> Scene:
    return request.getfixturevalue(f"on_{request.param}")


def played(workshop: Workshop, ways: dict[str, Fault], witness: Path) -> Iterator[Scene]:
    try:
        yield Scene(workshop, ways, witness)
    finally:
        workshop.close()


@contextmanager
def told_read_only(folder: Path) -> Iterator[None]:
    """The worker finds its file read-only: it asks SQLite itself to refuse every write."""
    (folder / "read-only").touch()
    try:
        yield
    finally:
        (folder / "read-only").unlink()


@contextmanager
def restarted(server: PostgresServer) -> Iterator[None]:
    server.restart("immediate")
    yield


def suffer(scene: Scene, fault: str, rounds: int, record_property) -> None:
    if fault not in scene.ways:
        pytest.skip("only root can mount a small disk")
    worker = scene.workshop.start_one(**SETTINGS)
    for _ in range(rounds):
        scene.go_through(fault)
    figures = scene.figures()
    for name, figure in figures.items():
        record_property(name, figure)
    where = scene.workshop.url.partition(":")[0]
    sys.stderr.write(f"{fault} on {where}, {rounds} rounds: {figures}\n")
    assert worker.popen.poll() is None, worker.log
    assert done_twice(scene.witness) == {}, figures
    assert figures["completed"] == figures["bodies"] == figures["jobs"], figures
    assert scene.workshop.app.scheduler.problems() == []
    assert "Traceback" not in worker.log, worker.log


@pytest.mark.parametrize("fault", FAULTS)
def test_no_body_is_done_twice_while_its_worker_lives(scene: Scene, fault: str, record_property):
    suffer(scene, fault, EVERYDAY, record_property)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_body_is_done_twice_in_many_rounds(scene: Scene, fault: str, record_property):
    suffer(scene, fault, SOAK, record_property)
