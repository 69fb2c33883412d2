"""Many processes on one database: everything runs, once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.system.conftest import Workshop
from tests.waiting import PATIENCE, eventually


@pytest.mark.parametrize("workers", [2, 5, 10])
def test_a_thousand_due_jobs_run_exactly_once_each(workshop: Workshop, workers: int):
    jobs = workshop.enqueue("quick", 1000)
    workshop.start(workers, lease="30s")  # nobody dies here: who has to wait for a core is not lost
    workshop.all_done(jobs)
    starts = Counter(mark.job_id for mark in workshop.marks("start"))
    assert set(starts.values()) == {1}
    assert len(starts) == 1000
    assert workshop.live() == []


@pytest.mark.parametrize("task", ["meets", "meets_on_threads"])
def test_one_worker_runs_a_hundred_at_once(workshop: Workshop, task: str):
    jobs = workshop.enqueue(task, 100, others=100)
    workshop.start(concurrency=100)
    workshop.all_done(jobs)
    assert len(workshop.marks("met")) == 100


def test_a_second_worker_leaves_the_running_work_of_the_first_alone(workshop: Workshop):
    first = workshop.start_one()
    job = workshop.enqueue_one("holds")
    workshop.wait_for_marks("start")
    workshop.start_one()
    lease = workshop.worker_of(first).lease_until
    eventually(lambda: (workshop.worker_of(first).lease_until - lease).total_seconds() > 4)  # two leases
    assert [live.worker_id for live in workshop.running()] == [workshop.worker_of(first).id]
    workshop.release()
    workshop.all_done([job])
    assert len(workshop.marks("start")) == 1


def test_a_task_that_blocks_the_loop_longer_than_the_lease_does_not_lose_it(workshop: Workshop):
    workshop.start(2)
    job = workshop.enqueue_one("blocks_the_loop", seconds=5)
    workshop.all_done([job])
    assert workshop.results(job) == ["completed"]
    assert workshop.events("worker.lost") == []


# -- idle workers wake


def test_an_idle_scheduler_starts_a_job_when_it_is_due(workshop: Workshop, record_property):
    workshop.start(poll_interval="10m")
    job = workshop.app.registry.get("quick").enqueue_in("700ms")
    workshop.all_done([job])
    (ran,) = workshop.history(job)
    late = (ran.started_at - ran.due_at).total_seconds()
    record_property("late", late)
    assert 0 <= late < PATIENCE  # usually a few milliseconds; it polls every ten minutes


def test_what_another_process_enqueues_wakes_an_idle_worker(workshop: Workshop):
    workshop.start(poll_interval="10m")
    for _ in range(3):
        job = workshop.enqueue_one("quick")
        job.wait(PATIENCE)
        assert workshop.results(job) == ["completed"]


def test_without_notifications_there_is_polling(workshop: Workshop, monkeypatch):
    workshop.start(poll_interval="200ms")
    silence(workshop, monkeypatch)
    job = workshop.enqueue_one("quick")
    job.wait(PATIENCE)
    assert workshop.results(job) == ["completed"]


def silence(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process notifies nobody."""
    database = workshop.app.parts.store.database
    monkeypatch.setattr(database, "_channel", "nobody_listens", raising=False)
    if workshop.url.startswith("sqlite"):
        monkeypatch.setattr(database, "notify", lambda: None)
