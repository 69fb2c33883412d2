"""SIGTERM, cancel and timeout of real processes."""

from __future__ import annotations

import signal
import time

import pytest

from tests.system.conftest import Workshop
from tests.waiting import eventually


@pytest.mark.parametrize("task", ["holds", "holds_thread"])
def test_a_terminated_worker_lets_what_runs_finish_within_the_grace(workshop: Workshop, task: str):
    process = workshop.start_one(shutdown_grace="60s")
    job = workshop.enqueue_one(task)
    workshop.wait_for_marks("start")
    process.terminate()
    eventually(lambda: "Stopping" in process.log)
    late = workshop.enqueue_one("quick")
    workshop.release()
    assert process.exit_code() == 0
    assert workshop.results(job) == ["completed"]
    assert [live.job_id for live in workshop.live()] == [late.id]  # it claimed no more
    assert workshop.worker_of(process).closed_as == "stopped"


@pytest.mark.parametrize("task", ["holds", "holds_thread", "ignores_cancel"])
def test_after_the_grace_nothing_is_left_running_and_no_retry_is_spent(workshop: Workshop, task: str):
    process = workshop.start_one(shutdown_grace="300ms")
    job = workshop.enqueue_one(task)
    workshop.wait_for_marks("start")
    process.terminate()
    assert process.exit_code() == 0
    assert workshop.running() == []
    (live,) = workshop.live()
    assert (live.attempt, live.failures, live.losses, live.waits_for) == (0, 0, 0, None)
    workshop.release()
    workshop.start_one()
    workshop.all_done([job])
    assert workshop.results(job) == ["completed"]


@pytest.mark.parametrize("task", ["holds", "holds_thread", "ignores_cancel"])
def test_a_second_signal_stops_at_once(workshop: Workshop, task: str):
    process = workshop.start_one(shutdown_grace="1h")
    job = workshop.enqueue_one(task)
    workshop.wait_for_marks("start")
    process.terminate()
    eventually(lambda: "Stopping" in process.log)
    process.signal(signal.SIGINT)
    assert process.exit_code() == 0
    assert [(live.job_id, live.worker_id, live.attempt) for live in workshop.live()] == [(job.id, None, 0)]


def test_a_cancelled_job_stops_within_two_seconds(workshop: Workshop, record_property):
    workshop.start()

    def seconds() -> float:
        started = len(workshop.marks("start"))
        job = workshop.enqueue_one("holds")
        workshop.wait_for_marks("start", started + 1)
        asked = time.monotonic()
        job.cancel(by="ops")
        eventually(lambda: workshop.results(job) == ["cancelled"])
        record_property("took", took := time.monotonic() - asked)
        return took

    eventually(lambda: seconds() < 2)  # other programs may delay some of them
    assert workshop.running() == []
    assert workshop.marks("end") == []


def test_a_thread_past_its_timeout_keeps_its_place_until_an_operator_ends_the_record(workshop: Workshop):
    process = workshop.start_one()
    app = workshop.app
    app.schedule(app.registry.get("holds_thread"), every="1s", first_run="now", timeout="300ms", retries=0)
    app.apply_declarations()
    job = app.handle(app.jobs.get("holds_thread").id)
    workshop.wait_for_marks("start")
    eventually(lambda: "Run does not stop" in process.log)
    eventually(lambda: app.jobs.get(job.id).facts.skipped >= 3)
    assert len(workshop.marks("start")) == 1  # nothing of that job starts meanwhile
    (running,) = workshop.running()
    app.jobs.pause(job.id)
    app.executions.cancel(running.id, by="ops", force=True)
    assert workshop.results(job) == ["cancelled"]
    workshop.release()
    workshop.wait_for_marks("end")
    other = workshop.enqueue_one("quick")
    other.wait()
    assert workshop.results(job) == ["cancelled"]  # its late result changes nothing
    assert app.jobs.get(job.id).facts.completed == 0
