"""The worker, driven by hand, on both databases: claims, order, and stops."""

from __future__ import annotations

import asyncio
import logging

from ostinato.core.model import WaitsFor
from ostinato.engine import settler
from ostinato.engine import worker as worker_module
from ostinato.engine.dispatcher import StepReport
from ostinato.task import Registry, Task
from tests.build import NOW, SECOND
from tests.engine.at_work import NOTHING, Gate, done, idle
from tests.engine.conftest import Rig
from tests.waiting import until

# -- claiming


async def test_claim_is_start_and_only_what_it_has_room_for(rig: Rig):
    gate = Gate(rig)
    rig.enqueue(5)
    worker = await rig.worker(concurrency=2)
    assert (await worker.step()).moved == 2
    assert (worker.running, len(rig.running())) == (2, 2)  # nothing waits inside the process
    assert await worker.step() == NOTHING
    gate.opened.set()
    await idle(worker)
    assert (await worker.step()).moved == 2
    await idle(worker)
    assert (await worker.step()).moved == 1
    await idle(worker)
    assert rig.live() == []


async def test_it_serves_its_queues_only(rig: Rig):
    Gate(rig)
    rig.enqueue(queue="slow")
    (job_id,) = rig.enqueue(queue="fast")
    worker = await rig.worker(queues=("fast",))
    assert (await worker.step()).moved == 1
    assert [live.job_id for live in rig.running()] == [job_id]


async def test_a_worker_that_is_asked_to_drain_claims_no_more(rig: Rig):
    Gate(rig)
    worker = await rig.worker()
    rig.enqueue()
    rig.store.workers.drain(worker.lease.worker_id, NOW, "ops")
    worker.lease.renew(worker.running)
    assert await worker.step() == NOTHING
    assert rig.running() == []


async def test_it_says_when_more_may_start(rig: Rig):
    Gate(rig)
    worker = await rig.worker()
    assert await worker.step() == NOTHING
    rig.add(at=NOW + SECOND / 2)
    rig.dispatcher().step()
    assert await worker.step() == StepReport(0, NOW + SECOND / 2)


async def test_more_than_one_transaction_claims_is_taken_at_once(rig: Rig, monkeypatch):
    Gate(rig)
    monkeypatch.setattr(worker_module, "MOST_AT_ONCE", 3)
    rig.enqueue(5)
    worker = await rig.worker(concurrency=5)
    await worker.step()
    assert worker.wake.is_set()
    worker.wake.clear()
    await worker.step()
    assert worker.running == 5
    assert not worker.wake.is_set()


async def test_g12_unknown_tasks_are_left_for_who_knows_them_and_told_once(rig: Rig, caplog):
    caplog.set_level(logging.WARNING, "ostinato")
    gate = Gate(rig)
    strange = rig.enqueue(3, task="strange")
    (known,) = rig.enqueue()
    worker = await rig.worker()
    assert (await worker.step()).moved + (await worker.step()).moved == 4  # one started, three set apart
    assert await worker.step() == NOTHING
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "strange" in caplog.text
    assert {live.waits_for for live in rig.live() if live.job_id in strange} == {WaitsFor.TASK}
    assert [live.job_id for live in rig.running()] == [known]
    assert all(rig.job(job_id).facts.failed == 0 for job_id in strange)
    tasks = Registry()
    tasks.add(Task(done, "strange"))
    other = await rig.worker(registry=tasks)
    assert (await other.step()).moved == 3
    gate.opened.set()
    await idle(worker)
    await idle(other)
    assert [rig.results(job_id) for job_id in strange] == [["completed"]] * 3


async def test_args_that_cannot_be_read_fail_that_run_and_no_other(rig: Rig):
    rig.registry.add(Task(done, "work"))
    bad, good = rig.enqueue(2, max_retries=3)
    rig.sql("UPDATE {live} SET args = :args WHERE job_id = :id", args="{", id=bad)
    worker = await rig.worker()
    await worker.step()
    await idle(worker)
    assert (rig.results(bad), rig.results(good)) == (["failed"], ["completed"])


# -- stopping


async def test_a_worker_that_leaves_settles_what_ended_and_hands_back_what_runs(rig: Rig):
    gate = Gate(rig)
    rig.registry.add(Task(done, "done"))
    (ends,) = rig.enqueue(task="done")
    (runs,) = rig.enqueue(max_retries=0)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started and worker.running == 1)
    await worker.leave()
    assert rig.results(ends) == ["completed"]
    (live,) = rig.live(runs)
    assert (live.worker_id, live.attempt, live.failures, live.losses) == (None, 0, 0, 0)
    (row,) = rig.store.workers.seen(NOW)
    assert row.closed_as == "stopped"


async def test_what_is_interrupted_is_handed_back_and_spends_nothing(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue(max_retries=0)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    worker.interrupt()
    await idle(worker)
    assert gate.ended == ["cancelled"]
    (live,) = rig.live(job_id)
    assert (live.worker_id, live.attempt, live.failures, live.releases) == (None, 0, 0, 1)
    assert live.waits_for is None


async def test_a_late_claim_of_a_worker_that_left_takes_nothing(rig: Rig):
    Gate(rig)
    worker = await rig.worker()
    await worker.leave()
    rig.enqueue()
    claim = rig.store.queue.claim(worker.lease.worker_id, ("work",), (), lambda: NOW, 5)
    assert claim.claimed == ()


# -- order of claims and settles

CONCURRENCY = 5


async def test_while_claims_come_back_full_what_has_ended_waits_a_moment(rig: Rig):
    rig.registry.add(Task(done, "work"))
    for _ in range(2 * CONCURRENCY + 1):
        rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    assert (worker.unsettled, worker.claims_first) == (CONCURRENCY, True)
    rig.clock.advance(settler.LONGEST_UNSETTLED)
    assert not worker.claims_first  # not for long: after a crash it would run again
    await worker.flush()
    await worker.step()
    await until(lambda: not worker.running)
    assert worker.claims_first
    await worker.step()  # brings one only
    await until(lambda: not worker.running)
    assert not worker.claims_first


async def test_a_backlog_is_settled_as_it_is_worked_off(rig: Rig):
    rig.registry.add(Task(done, "work"))
    for _ in range(CONCURRENCY):
        rig.enqueue()
    rig.clock.advance(worker_module.BURST)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    assert (worker.unsettled, worker.claims_first) == (CONCURRENCY, False)


async def test_what_has_ended_is_settled_before_it_becomes_too_much(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    for _ in range(CONCURRENCY):
        rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    assert worker.claims_first
    monkeypatch.setattr(settler, "MOST_UNSETTLED", CONCURRENCY)
    assert not worker.claims_first


async def test_the_timeout_of_a_task_stops_a_job_that_has_none(rig: Rig):
    async def work() -> None:
        await asyncio.Event().wait()

    task = Task(work)
    task.limits = {"timeout": SECOND / 50}
    rig.registry.add(task)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    await worker.flush()
    assert rig.results(job_id) == ["timed_out"]
