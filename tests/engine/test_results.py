"""The result of a run is offered until the store has settled or refused it (G15), on both databases."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ostinato.core.errors import StoreError
from ostinato.core.model import Claimed
from ostinato.core.policy import OnLost
from ostinato.engine import settler
from ostinato.engine.worker import Worker
from ostinato.store import settling
from ostinato.store.settling import Settled
from ostinato.task import Task
from tests.build import SECOND
from tests.engine.at_work import Gate, away, done, idle, unsettled
from tests.engine.conftest import LEASE, Rig
from tests.faults import read_only
from tests.waiting import PATIENCE, until


def left(batch: Any) -> Settled:
    """Stand in for a store that can settle none of a batch."""
    return Settled(left=tuple(batch))


def releases(rig: Rig, job_id: UUID) -> list[int]:
    return [ended.releases for ended in rig.store.history.of_job(job_id, 10)]


async def doubt(worker: Worker, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a claim get no answer."""
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "claim", away)
        with pytest.raises(StoreError):
            await worker.step()


# -- a store that accepts nothing now


async def test_a_finished_result_survives_a_read_only_database(rig: Rig):
    jobs, worker = await unsettled(rig, 3)
    with read_only(rig.store.database, rig.url):
        for _ in range(2):
            with pytest.raises(StoreError):
                await worker.flush()
            with pytest.raises(StoreError):
                await worker.step()
    assert (worker.unsettled, worker.held) == (3, 3)
    assert (await worker.step()).moved == 0  # nothing was released, so there is nothing to claim
    await idle(worker)
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 3
    assert [releases(rig, job_id) for job_id in jobs] == [[0]] * 3
    assert worker.held == 0


async def test_a_result_that_is_just_being_settled_is_not_released(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    under_way, go_on, settle = threading.Event(), threading.Event(), rig.store.queue.settle

    def slow(batch: Any) -> Settled:
        under_way.set()
        assert go_on.wait(PATIENCE)
        return settle(batch)

    monkeypatch.setattr(rig.store.queue, "settle", slow)
    flushing = asyncio.create_task(worker.flush())
    await until(under_way.is_set)
    await doubt(worker, rig, monkeypatch)
    assert (await worker.step()).moved == 0
    go_on.set()
    await flushing
    assert (rig.results(job_id), releases(rig, job_id)) == (["completed"], [0])


async def test_a_flush_that_is_cancelled_while_it_writes_logs_keeps_its_results(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    under_way = asyncio.Event()

    async def slow() -> None:
        under_way.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(worker.logs, "flush", slow)
        patch.setattr(type(worker.logs), "is_empty", False)
        flushing = asyncio.create_task(worker.flush())
        await under_way.wait()
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
    assert (worker.unsettled, worker.held) == (1, 1)
    await worker.flush()
    assert (rig.results(job_id), worker.held) == (["completed"], 0)


async def test_a_result_that_the_store_left_is_not_released(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        await worker.flush()
    assert (worker.unsettled, worker.held) == (0, 1)
    await doubt(worker, rig, monkeypatch)
    assert (await worker.step()).moved == 0
    worker._settler.offer_left()
    await worker.flush()
    assert (rig.results(job_id), releases(rig, job_id), worker.held) == (["completed"], [0], 0)


async def test_a_failed_batch_is_kept_whole_and_blames_no_row(rig: Rig, monkeypatch, caplog):
    jobs, worker = await unsettled(rig, 4)
    calls, settle = [], settling.Settling._settle

    def refuses(queue: Any, batch: Any) -> Settled:
        calls.append(len(batch))
        raise StoreError("the server is in a mood that has no name")

    with monkeypatch.context() as patch:
        patch.setattr(settling.Settling, "_settle", refuses)
        with pytest.raises(StoreError):
            await worker.flush()
    assert calls == [4]
    assert worker.unsettled == 4
    monkeypatch.setattr(settling.Settling, "_settle", settle)
    await worker.flush()
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 4


# -- results that the store leaves


async def test_a_left_result_is_told_once_and_shown(rig: Rig, monkeypatch, caplog):
    _, worker = await unsettled(rig)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        for _ in range(3):
            await worker.flush()
            worker._settler.offer_left()
    (event,) = rig.events("result.held")
    assert (event.execution_id, event.worker_id) == (rig.live()[0].id, worker.lease.worker_id)
    assert caplog.text.count("Result cannot be saved") == 1
    await worker.flush()


async def test_with_too_many_left_results_a_worker_claims_no_more(rig: Rig, monkeypatch, caplog):
    monkeypatch.setattr(settler, "MOST_LEFT", 2)
    _, worker = await unsettled(rig, 2)
    rig.enqueue()
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        await worker.flush()
    assert (worker.overfull, (await worker.step()).moved) == (True, 0)
    assert caplog.text.count("this worker claims no more") == 1
    worker._settler.offer_left()
    await worker.flush()
    assert (worker.overfull, (await worker.step()).moved) == (False, 1)
    await idle(worker)


async def test_left_results_take_no_place_of_the_concurrency(rig: Rig, monkeypatch):
    _, worker = await unsettled(rig, 5)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        await worker.flush()
    assert (worker.held, worker.free) == (5, 5)
    worker._settler.offer_left()
    await worker.flush()


# -- stopping


async def test_a_worker_that_leaves_offers_its_results_once_more(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        await worker.flush()
    await worker.leave()
    assert (rig.results(job_id), rig.store.workers.leases()) == (["completed"], [])


async def test_with_a_result_that_cannot_be_saved_the_row_of_a_worker_is_not_closed(rig: Rig, monkeypatch):
    """It is settled as lost, and `on_lost` decides: a release would run its body again."""
    gate = Gate(rig, "waits")
    (job_id,) = rig.enqueue(task="work", on_lost=OnLost.FAIL)
    rig.registry.add(Task(done, "work"))
    (waits,) = rig.enqueue(task="waits")
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started and worker.unsettled)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", left)
        await worker.leave()
    assert [seen.worker_id for seen in rig.store.workers.leases()] == [worker.lease.worker_id]
    assert [live.job_id for live in rig.running()] == [job_id]  # the other one is released
    sweeper = rig.sweeper()
    for _ in range(8):
        sweeper.step()
        rig.clock.advance(LEASE / 4)
    assert rig.results(job_id) == ["lost"]
    assert [live.job_id for live in rig.live()] == [waits]
    worker.interrupt()
    await until(lambda: not worker.running)


@pytest.mark.parametrize(("on_lost", "ends"), [(OnLost.FAIL, ["lost"]), (OnLost.RETRY, [])])
async def test_a_body_that_its_worker_stops_is_lost_where_it_must_not_repeat(rig: Rig, on_lost, ends):
    gate = Gate(rig)
    (job_id,) = rig.enqueue(on_lost=on_lost, max_retries=3)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    worker.interrupt()
    await idle(worker)
    assert rig.results(job_id) == ends
    assert [live.attempt for live in rig.live(job_id)] == ([] if ends else [0])
    if ends:
        (ended,) = rig.store.history.of_job(job_id, 10)
        assert ended.error == "its worker was stopped"


async def test_a_task_that_hands_back_is_released_whatever_its_job_says(rig: Rig):
    gate = Gate(rig)
    rig.registry.get("work").hands_back = True
    (job_id,) = rig.enqueue(on_lost=OnLost.FAIL)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    worker.interrupt()
    await idle(worker)
    assert (rig.results(job_id), [live.worker_id for live in rig.live(job_id)]) == ([], [None])


async def test_a_body_that_has_not_begun_is_released_whatever_its_job_says(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue(on_lost=OnLost.FAIL)
    worker = await rig.worker()
    await worker.step()
    worker.interrupt()  # before the loop continued
    await idle(worker)
    assert gate.started == []
    assert (rig.results(job_id), [live.worker_id for live in rig.live(job_id)]) == ([], [None])


async def test_a_thread_that_does_not_stop_is_lost_where_it_must_not_repeat(rig: Rig):
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(PATIENCE)

    rig.task(work)
    (job_id,) = rig.enqueue(on_lost=OnLost.FAIL)
    worker = await rig.worker()
    await worker.step()
    await until(begun.is_set)
    worker.interrupt()
    await worker.leave()
    assert rig.results(job_id) == ["lost"]
    go_on.set()
    await idle(worker)


async def test_a_result_is_not_dated_before_the_start_of_its_run(rig: Rig):
    """The start may be a little ahead of this clock, which only estimates the server's."""
    (job_id,), worker = await unsettled(rig)
    (claimed,) = worker._settler._finished
    ahead = replace(claimed.live, started_at=rig.clock.now() + SECOND / 2)
    worker._settler._finished.clear()
    worker._settler.end(Claimed(ahead, claimed.definition), claimed.outcome)
    assert worker._settler._finished[0].at == ahead.started_at
    await worker.flush()
    (ended,) = rig.store.history.of_job(job_id, 10)
    assert ended.finished_at == ahead.started_at
