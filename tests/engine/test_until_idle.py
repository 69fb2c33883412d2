"""`--until-idle`: a real engine stops by itself once nothing may start and nothing is due."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from ostinato.clock import SystemClock
from ostinato.core.policy import FirstRun
from ostinato.task import Registry, Task
from tests.engine.at_work import an_engine, done
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE

HOUR = timedelta(hours=1)


@pytest.fixture
def rig(database_url: str):
    rig = Rig(database_url)
    rig.clock = SystemClock()
    rig.registry.add(Task(done, "work"))
    yield rig
    assert rig.store.audit.problems() == []
    rig.store.close()


async def works_until_idle(rig: Rig, **settings: object) -> None:
    engine = an_engine(rig, **settings)
    engine.stop_when_idle()
    await asyncio.wait_for(engine.run(), PATIENCE)
    assert rig.running() == []


def results(rig: Rig, jobs: list[UUID]) -> list[list[str]]:
    return [rig.results(job_id) for job_id in jobs]


async def test_a_worker_without_work_stops(rig: Rig):
    await works_until_idle(rig)


async def test_all_that_may_start_is_run_and_settled_first(rig: Rig):
    jobs = rig.enqueue(30)
    await works_until_idle(rig, concurrency=4)
    assert results(rig, jobs) == [["completed"]] * 30


async def test_what_a_run_enqueues_and_what_follows_it_is_run_too(rig: Rig):
    more: list[UUID] = []

    def parent() -> None:
        more.extend(rig.enqueue(2))

    rig.registry.add(Task(parent, "parent"))
    jobs = rig.enqueue(task="parent")
    await works_until_idle(rig)
    assert results(rig, jobs + more) == [["completed"]] * 3


async def test_a_job_whose_limit_has_one_place_is_run_to_its_end(rig: Rig):
    jobs = rig.enqueue(4, max_concurrency=1)
    await works_until_idle(rig, concurrency=4)
    assert results(rig, jobs) == [["completed"]] * 4


async def test_a_due_job_is_run_once_and_its_next_time_is_not_awaited(rig: Rig):
    (job_id,) = rig.add(every=HOUR, first_run=FirstRun.NOW)
    await works_until_idle(rig)
    assert rig.results(job_id) == ["completed"]


async def test_a_waiting_retry_stays(rig: Rig):
    def broken() -> None:
        raise ValueError("broken")

    rig.registry.add(Task(broken, "broken"))
    (job_id,) = rig.enqueue(task="broken", max_retries=1)
    await works_until_idle(rig)
    assert rig.results(job_id) == ["failed"]
    (live,) = rig.live(job_id)
    assert (live.worker_id, live.failures) == (None, 1)


async def test_paused_queues_other_queues_and_unknown_tasks_stay(rig: Rig):
    (paused,) = rig.enqueue(queue="paused")
    (other,) = rig.enqueue(queue="other")
    (unknown,) = rig.enqueue(task="unknown")
    (mine,) = rig.enqueue()
    rig.sql("UPDATE {queues} SET paused_at = :now WHERE name = 'paused'", now=rig.clock.now())
    await works_until_idle(rig, queues="paused,default")
    assert results(rig, [paused, other, unknown, mine]) == [[], [], [], ["completed"]]


async def test_a_run_that_another_worker_set_apart_is_run_by_one_that_knows_its_task(rig: Rig):
    (job_id,) = rig.enqueue()
    stranger = await rig.worker(registry=Registry())
    await stranger.step()
    assert [live.waits_for for live in rig.live(job_id)] == ["task"]
    await works_until_idle(rig)
    assert rig.results(job_id) == ["completed"]
