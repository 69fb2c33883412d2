"""RQ's workers as real processes, killed while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ostinato.isolation.system import descendants
from tests.acceptance.server import Server
from tests.acceptance.test_pipelit import AN_APP, Place, graph
from tests.valkey import Valkey
from tests.waiting import PATIENCE, eventually

TICKING = """
from ostinato import Ostinato

app = Ostinato("shop")

@app.task(every="1s")
def tick() -> None: ...
"""


@pytest.fixture
def place(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(Server, "APP", AN_APP)
    place = Place(tmp_path, sqlite_url, "rq")
    yield place
    place.close()


@pytest.mark.soak
def test_a_worker_of_rq_that_is_killed_with_its_run_is_replaced_by_another(place):
    held = place.ask("POST", "/workflows", graph("holds", "holds", name="held"), 201)["id"]
    schedule = place.make(held, 3600)
    place.ask("POST", f"/jobs/{schedule}/run", code=202)
    eventually(lambda: (place.folder / "held.started").exists())
    busy = _busy(place)
    for pid in (busy.pid, *descendants(busy.pid)):
        os.kill(pid, signal.SIGKILL)
    busy.wait()
    (place.folder / "held.started").unlink()
    eventually(lambda: (place.folder / "held.started").exists())  # begun again by the other one
    (place.folder / "held.go").touch()
    done = place.until(schedule, lambda each: each["run_count"] == 1)
    assert done["status"] == "active"
    runs = place.executions(schedule)
    assert [each["status"] for each in runs if each["status"] == "completed"] == ["completed"]


def _busy(place: Place) -> subprocess.Popen[bytes]:
    """The worker of RQ that runs something: only those have an open row."""
    workers = place.ask("GET", "/workers")["workers"]
    at_work = {each["pid"] for each in workers if each["closed_at"] is None}
    return next(worker for worker in place.workers if worker.pid in at_work)


@pytest.mark.soak
def test_schedules_survive_a_redis_that_is_killed_and_started_empty_again_and_again(place):
    note = place.ask("POST", "/workflows", graph("note", "note", into="notes"), 201)["id"]
    schedules = [place.make(note) for _ in range(5)]
    for _ in range(3):
        assert place.valkey is not None
        before = {each: place.get(each)["run_count"] for each in schedules}
        place.valkey.kill()
        place.valkey.start()
        for each in schedules:
            place.until(each, lambda now, was=before[each]: now["run_count"] >= was + 2)
    for each in schedules:
        place.ask("POST", f"/schedules/{each}/pause/")
    place.until(schedules[0], lambda each: each["status"] == "paused")
    for each in schedules:
        numbers = [run["number"] for run in place.executions(each) if run["status"] == "completed"]
        assert len(numbers) == len(set(numbers))


def test_a_redis_that_is_away_is_one_line_of_each_process_and_no_traceback(
    private_valkey: Valkey, sqlite_url: str, tmp_path: Path
):
    (tmp_path / "shop.py").write_text(TICKING)
    log = tmp_path / "log"
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-c", "from ostinato.program import main; main()", "worker", "--app", "shop:app",
             "--engine", "rq", "--redis", private_valkey.url, "--database", sqlite_url, "--concurrency", "2"],
            cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        eventually(lambda: "Job completed" in log.read_text())
        private_valkey.kill()
        eventually(lambda: log.read_text().count("Redis unavailable") >= 3)
        skips = log.read_text().count("Due times skipped")
        eventually(lambda: log.read_text().count("Due times skipped") >= skips + 3)
        private_valkey.start()
        done = log.read_text().count("Job completed")
        eventually(lambda: log.read_text().count("Job completed") > done)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
    said = log.read_text()
    assert "Traceback" not in said
    assert "could not connect" not in said
    # each of the three processes, a run of each worker, and a worker that has begun anew
    assert said.count("Redis unavailable") <= 5 + said.count("An RQ worker has ended"), said
