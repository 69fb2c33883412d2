"""RQ's workers as real processes, killed while they run."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ostinato.isolation.system import descendants
from tests.acceptance.server import Server
from tests.acceptance.test_pipelit import AN_APP, Place, graph
from tests.waiting import eventually


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
