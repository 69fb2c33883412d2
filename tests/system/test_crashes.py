"""Workers that die or stand still: what they ran is found, and nobody's late result counts."""

from __future__ import annotations

import signal

import pytest

from ostinato.core.model import Status
from tests.system.conftest import Workshop
from tests.waiting import eventually

LEASE, SWEEP = 2.0, 0.5  # as in SHORT


@pytest.mark.parametrize("task", ["holds", "holds_thread"])
def test_g6_the_work_of_a_killed_worker_is_taken_up_by_another(workshop: Workshop, task: str, record_property):
    first = workshop.start_one()
    job = workshop.enqueue_one(task)
    workshop.wait_for_marks("start")
    workshop.start_one()
    first.kill()
    workshop.wait_for_marks("start", 2)
    (lost,) = workshop.history(job)
    silent_for = (lost.finished_at - workshop.worker_of(first).renewed_at).total_seconds()
    record_property("silent_for", silent_for)
    assert lost.outcome == "lost"
    assert LEASE <= silent_for <= LEASE + 2 * SWEEP + 5  # 5: this machine may be busy
    workshop.release()
    workshop.all_done([job])
    assert workshop.results(job) == ["lost", "completed"]
    assert workshop.worker_of(first).closed_as == "lost"


@pytest.mark.parametrize("task", ["holds_thread", "holds_the_loop"])
def test_g2_a_worker_that_stood_still_comes_back_and_its_late_result_is_refused(workshop: Workshop, task: str):
    first = workshop.start_one()
    job = workshop.enqueue_one(task)
    workshop.wait_for_marks("start")
    workshop.start_one()
    first.signal(signal.SIGSTOP)
    workshop.wait_for_marks("start", 2)  # it was taken over
    workshop.release()
    workshop.all_done([job])
    first.signal(signal.SIGCONT)
    (refused,) = eventually(lambda: workshop.events("result.refused"))
    assert refused.job_id == job.id
    assert workshop.results(job) == ["lost", "completed"]
    eventually(lambda: "Late result rejected" in first.log)
    eventually(lambda: "Lease lost" in first.log)
    eventually(lambda: sum(row.pid == first.pid for row in workshop.workers()) == 2)  # back, under a new id
    again = workshop.enqueue("quick", 20)
    workshop.all_done([job, *again])


def test_a_worker_that_stood_still_stops_what_it_no_longer_holds(workshop: Workshop):
    first = workshop.start_one()
    job = workshop.enqueue_one("holds")
    workshop.wait_for_marks("start")
    workshop.start_one()
    first.signal(signal.SIGSTOP)
    workshop.wait_for_marks("start", 2)
    first.signal(signal.SIGCONT)
    eventually(lambda: "Lease lost" in first.log)
    workshop.release()
    workshop.all_done([job])
    assert len(workshop.marks("end")) == 1  # the other's
    assert workshop.events("result.refused") == []


def test_g7_an_occurrence_that_kills_its_worker_stops_after_three_losses(workshop: Workshop):
    quickly = {"lease": "1s", "sweep": "200ms", "concurrency": 10}
    killer = workshop.app.registry.get("kills_its_worker").using(backoff="200ms").enqueue(after=0.3)
    neighbours = [workshop.app.registry.get("sleeps").using(backoff="10s").enqueue(seconds=1.0) for _ in range(3)]
    for deaths in (1, 2, 3):
        process = workshop.start_one(**quickly)
        assert process.exit_code() == -signal.SIGKILL
        assert len(workshop.marks("kill")) == deaths
    workshop.start_one(**quickly)
    eventually(lambda: workshop.app.jobs.get(killer.id).status is Status.FAILED)
    assert workshop.results(killer) == ["lost"] * 3
    assert len(workshop.marks("kill")) == 3
    workshop.all_done(neighbours)
    assert all(workshop.results(job) == ["lost", "lost", "completed"] for job in neighbours)


def test_g3_everything_killed_and_started_again_runs_all_that_was_acknowledged(workshop: Workshop):
    jobs = workshop.enqueue("sleeps", 300, seconds=0.05)
    workers = workshop.start(2, concurrency=10)
    workshop.wait_for_marks("end", 50)
    jobs += workshop.enqueue("sleeps", 50, seconds=0.05)
    for process in workers:
        process.kill()
    jobs += workshop.enqueue("sleeps", 50, seconds=0.05)  # nobody is there
    workshop.start(2, concurrency=10)
    workshop.all_done(jobs)
    assert workshop.live() == []
