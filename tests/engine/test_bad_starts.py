"""Claimed executions that cannot start, or whose claim is cut off, on both databases: the others continue."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ostinato.core.errors import RowRefused, StoreUnavailable
from ostinato.core.policy import Isolation, OnLost
from ostinato.engine import settler
from ostinato.engine.worker import Worker
from ostinato.store import settling
from ostinato.store.claiming import Claim
from ostinato.store.settling import Settled
from ostinato.task import Task
from ostinato.telemetry import reports
from tests.engine.at_work import an_engine, away, done, handed_back, has_offered_its_claim, idle, unsettled
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until


class NoThread(threading.Thread):
    """A thread that the system refuses to start."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


@pytest.fixture
def bare(database_url: str) -> Any:
    """A rig whose rows may be wrong at the end."""
    rig = Rig(database_url)
    yield rig
    rig.store.close()


def answer_lost(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit claims, but lose their answers."""
    claim = rig.store.queue.claim

    def lost(*args: Any, **given: Any) -> Claim:
        claim(*args, **given)
        raise StoreUnavailable("the answer is lost")

    monkeypatch.setattr(rig.store.queue, "claim", lost)


async def lose_a_claim(rig: Rig, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        answer_lost(rig, patch)
        with pytest.raises(StoreUnavailable):
            await worker.step()


# -- rows that cannot start


@pytest.mark.parametrize("args", ["[1]", "null", "5"])
async def test_args_that_are_no_object_fail_their_run_alone(bare: Rig, args: str):
    bare.registry.add(Task(done, "work"))
    (bad,), good = bare.enqueue(), bare.enqueue(2)
    bare.sql("UPDATE {jobs} SET args = :args WHERE id = :id", args=args, id=bad)
    worker = await bare.worker()
    await worker.step()
    await idle(worker)
    assert bare.results(bad) == ["failed"]
    assert [bare.results(job_id) for job_id in good] == [["completed"]] * 2
    assert (bare.running(), worker.held) == ([], 0)


async def test_a_start_that_fails_halfway_gives_the_rest_back(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(3)
    worker = await rig.worker()
    with monkeypatch.context() as patch:
        patch.setattr(rig.telemetry, "started", away)
        with pytest.raises(StoreUnavailable):
            await worker.step()
    assert len(rig.running()) == 3
    await worker.step()
    await idle(worker)
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 3


async def test_a_hook_without_a_thread_stops_no_run_and_is_told_later(rig: Rig, monkeypatch):
    heard: list[Any] = []
    rig.hooks.on("job:start")(heard.append)
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(2)
    worker = await rig.worker()
    with monkeypatch.context() as patch:
        patch.setattr(reports, "Thread", NoThread)
        await worker.step()
        await idle(worker)
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 2
    rig.enqueue()
    await worker.step()
    await idle(worker)
    assert rig.hooks.drain(PATIENCE)
    assert len(heard) == 3


async def test_args_that_do_not_fit_fail_a_run_in_a_process(rig: Rig):
    rig.registry.add(Task(in_a_process, "work", isolation=Isolation.PROCESS))
    (job_id,) = rig.enqueue(args='{"m": 2}')
    worker = await rig.worker()
    order = worker.order()
    assert order is not None
    worker.took(await worker.in_store(order.make), order)
    for each in list(worker._running):
        each.end_if_missing()  # as `watch` does, in the same step of the loop
    await idle(worker)
    assert rig.results(job_id) == ["failed"]


def in_a_process(n: int) -> int:
    return n


# -- claims that are cut off


@pytest.mark.parametrize("heard", [False, True])
async def test_a_stop_while_a_claim_is_under_way_loses_nothing(rig: Rig, monkeypatch, heard: bool):
    """`heard`: the listening thread makes the claim."""
    bodies: list[int] = []
    rig.registry.add(Task(lambda: bodies.append(1), "work"))
    claim, committed, stopping = rig.store.queue.claim, threading.Event(), threading.Event()

    def slow(*args: Any, **given: Any) -> Claim:
        found = claim(*args, **given)
        if found.claimed:
            committed.set()
            assert stopping.wait(PATIENCE)
        return found

    monkeypatch.setattr(rig.store.queue, "claim", slow)
    jobs = [] if heard else rig.enqueue(on_lost=OnLost.FAIL)
    engine = an_engine(rig, shutdown_grace="0s")
    work = asyncio.create_task(engine.run())
    if heard:
        await has_offered_its_claim(engine)
        jobs = await asyncio.to_thread(lambda: rig.enqueue(on_lost=OnLost.FAIL))
        rig.store.database.notify()
    await until(committed.is_set)
    leave = rig.store.workers.leave
    monkeypatch.setattr(rig.store.workers, "leave", lambda *given: (stopping.set(), leave(*given))[1])
    engine.stop()
    await asyncio.wait_for(work, PATIENCE)
    assert bodies == []
    assert handed_back(rig) == jobs


async def test_a_worker_that_drains_gives_a_lost_claim_back(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    worker = await rig.worker()
    jobs = rig.enqueue()
    await lose_a_claim(rig, worker, monkeypatch)
    assert worker.lease.worker_id is not None
    rig.store.workers.drain(worker.lease.worker_id, rig.clock.now(), "ann")
    worker.lease.renew(0)
    await worker.step()
    assert handed_back(rig) == jobs


async def test_a_lost_claim_whose_row_is_refused_stops_no_other(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    worker = await rig.worker()
    rig.enqueue()
    await lose_a_claim(rig, worker, monkeypatch)
    good, settle = rig.enqueue(), settling.Settling._settle

    def refuses(queue: Any, batch: Any) -> Settled:
        raise RowRefused("no")

    with monkeypatch.context() as patch:
        patch.setattr(settling.Settling, "_settle", refuses)
        await worker.step()
    assert settling.Settling._settle is settle
    await idle(worker)
    assert [rig.results(job_id) for job_id in good] == [["completed"]]


# -- results set aside


async def test_a_telemetry_that_fails_drops_no_result(rig: Rig, monkeypatch):
    (taken, kept), worker = await unsettled(rig, 2)
    settle = rig.store.queue.settle

    def leaves_one(batch: Any) -> Settled:
        return settle(batch[:1]) + Settled(left=tuple(batch[1:]))

    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", leaves_one)
        patch.setattr(rig.telemetry, "completed", away)
        with pytest.raises(StoreUnavailable):
            await worker.flush()
    assert worker.held == 1
    worker.doubt()
    await worker.step()
    worker._settler.offer_left()
    await worker.flush()
    assert [rig.results(job_id) for job_id in (taken, kept)] == [["completed"]] * 2
    assert [each.releases for each in rig.store.history.of_job(kept, 10)] == [0]


async def test_results_that_the_store_left_are_offered_by_one_timer(rig: Rig, monkeypatch):
    monkeypatch.setattr(settler, "LEFT_AGAIN", 3600.0)
    rig.registry.add(Task(done, "work"))
    worker = await rig.worker()
    timers = []
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", lambda batch: Settled(left=tuple(batch)))
        for _ in range(3):
            rig.enqueue()
            await worker.step()
            await idle(worker)
            timers.append(worker._settler._again)
    assert timers[0] is not None
    assert set(timers) == {timers[0]}
    worker._settler.offer_left()
    assert (timers[0].cancelled(), worker.unsettled) == (True, 3)
    await worker.flush()
    assert worker.held == 0
