"""Every pending and queued job or execution that is shown says why, with as many queries for fifty as for one."""

import pytest

from ostinato.core.schedule import Manual
from tests.build import MINUTE, SECOND


def reasons(service):
    """The reasons of all interfaces: the list, the one, and the list of executions."""
    (listed,) = service.jobs.with_reasons(service.jobs.search().items)
    (run,) = service.executions.search().items
    assert listed.reason == run.reason == service.executions.get(run.id).reason
    return run.reason


def test_a_queued_run_says_that_nothing_is_running(service, world):
    world.enqueue()
    world.advance(10 * SECOND)
    assert reasons(service) == "No worker was running yet."


def test_a_queued_run_says_that_its_queue_is_paused(service, world):
    world.worker()
    world.enqueue(queue="slow")
    world.store.workers.pause_queue("slow", world.now, "ann")
    assert "The queue 'slow' was paused by ann at 2026-11-16 12:00:00 UTC" in reasons(service)


def test_a_queued_run_says_that_no_worker_knows_its_task_or_serves_its_queue(service, world):
    world.worker("other", queues=["default"])
    world.enqueue()
    world.advance(5 * SECOND)
    assert reasons(service).startswith("No worker knew the task 'work'")
    world.worker("work", queues=["fast"])
    world.sql("UPDATE {live} SET queue = 'slow'")
    assert reasons(service).startswith("No worker served the queue 'slow'")


def test_a_queued_run_is_about_to_start_or_the_workers_are_busy(service, world):
    world.worker()
    world.enqueue()
    assert reasons(service) == "It is about to start."
    world.advance(10 * SECOND)
    assert reasons(service) == "All workers are busy."


def test_a_run_that_waits_for_its_time_says_when(service, world):
    world.worker()
    world.enqueue()
    world.sql(
        "UPDATE {live} SET waits_for = 'time', attempt = 1, run_at = CAST(:at AS {instant})",
        at=world.now + MINUTE,
    )
    (run,) = service.executions.search().items
    assert run.reason == "It waits for its retry at 2026-11-16 12:01:00 UTC."


def test_an_idle_manual_job_says_that_it_is_run_by_hand(service, world):
    world.add(schedule=Manual())
    (view,) = service.jobs.with_reasons(service.jobs.search().items)
    assert (view.status, view.reason) == ("pending", "The job has no schedule: it runs only on request.")


@pytest.mark.parametrize("ask", ["jobs", "executions"])
def test_a_list_of_fifty_asks_as_often_as_a_list_of_one(service, world, monkeypatch, ask):
    world.enqueue(50)
    world.advance(10 * SECOND)
    asked = []
    with world.store.database.read() as tx:
        kind = type(tx)
    fetch = kind._fetch
    monkeypatch.setattr(kind, "_fetch", lambda *given: asked.append(given[1].name) or fetch(*given))

    def count(limit):
        asked.clear()
        if ask == "jobs":
            found = service.jobs.with_reasons(service.jobs.search(limit=limit).items)
        else:
            found = service.executions.search(limit=limit).items
        assert [bool(each.reason) for each in found] == [True] * limit
        return len(asked)

    assert count(50) <= count(1)
