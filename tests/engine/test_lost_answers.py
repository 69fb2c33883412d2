"""A worker whose store does not answer, on both databases: its calls are repeated and count once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostinato.core.errors import StoreUnavailable
from ostinato.engine import settler
from ostinato.store.claiming import Claiming
from ostinato.store.settling import Settled
from ostinato.task import Task
from tests.engine.at_work import Gate, away, done, idle, unsettled
from tests.engine.conftest import Rig
from tests.waiting import until


async def test_g10_a_claim_whose_answer_was_lost_is_handed_back(rig: Rig, monkeypatch):
    gate = Gate(rig)
    first, second = rig.enqueue(2)
    worker = await rig.worker()
    with monkeypatch.context() as patch:
        lose_answers(patch, rig.store.queue, "claim")
        with pytest.raises(StoreUnavailable):
            await worker.step()
    assert (worker.running, len(rig.running())) == (0, 2)
    assert (await worker.step()).moved == 2
    gate.opened.set()
    await idle(worker)
    assert [rig.results(job_id) for job_id in (first, second)] == [["completed"]] * 2
    assert len(gate.started) == 2


async def test_g10_what_runs_and_what_has_ended_is_not_handed_back_with_it(rig: Rig, monkeypatch):
    gate = Gate(rig)
    rig.registry.add(Task(done, "done"))
    runs, ended = rig.enqueue() + rig.enqueue(task="done")
    worker = await rig.worker()
    await worker.step()
    await until(lambda: worker.running == 1)
    lost = rig.enqueue()
    with monkeypatch.context() as patch:
        lose_answers(patch, rig.store.queue, "claim")
        with pytest.raises(StoreUnavailable):
            await worker.step()
    await worker.step()
    assert worker.running == 2
    gate.opened.set()
    await idle(worker)
    assert [rig.results(job_id) for job_id in (runs, ended, *lost)] == [["completed"]] * 3
    assert len(gate.started) == 2


async def test_g10_what_was_claimed_and_could_not_be_made_ready_is_handed_back(rig: Rig, monkeypatch):
    """On PostgreSQL the claim is committed by then; a bug must not leave it with a worker that does not run it."""
    Gate(rig)
    worker = await rig.worker()
    rig.enqueue()
    await worker.step()
    (job_id,) = rig.enqueue()
    with monkeypatch.context() as patch:
        patch.setattr(Claiming, "_read", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await worker.step()
    assert (await worker.step()).moved == 1
    (live,) = rig.live(job_id)
    assert live.worker_id == worker.lease.worker_id
    assert worker.running == 2


async def test_g10_a_settle_whose_answer_was_lost_is_repeated_and_counts_once(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    with monkeypatch.context() as patch:
        lose_answers(patch, rig.store.queue, "settle")
        with pytest.raises(StoreUnavailable):
            await worker.flush()
    assert worker.unsettled == 1
    assert await worker.flush() == 1
    assert rig.results(job_id) == ["completed"]
    assert rig.events("result.refused") == []


async def test_g11_what_could_not_be_settled_is_kept_in_order(rig: Rig, monkeypatch):
    jobs, worker = await unsettled(rig, 3)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", away)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await worker.flush()
    assert worker.unsettled == 3
    assert await worker.flush() == 3
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 3


async def test_what_the_store_could_not_settle_is_tried_again_later_not_at_once(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    later: dict[float, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "call_later", later.__setitem__)
        patch.setattr(rig.store.queue, "settle", lambda batch: Settled(left=tuple(batch)))
        worker.ended.clear()
        assert await worker.flush() == 1
        assert (worker.unsettled, worker.ended.is_set()) == (0, False)
    later[settler.LEFT_AGAIN]()
    assert worker.ended.is_set()
    await worker.flush()
    assert rig.results(job_id) == ["completed"]


# -- without the mechanism the test above fails


async def test_without_its_history_a_settle_is_a_problem(rig: Rig, monkeypatch):
    (job_id,), worker = await unsettled(rig)
    await worker.flush()
    rig.sql("DELETE FROM {executions} WHERE job_id = :id", id=job_id)
    assert len(rig.store.audit.problems()) == 2  # its counter, its number
    rig.sql("DELETE FROM {jobs} WHERE id = :id", id=job_id)


def lose_answers(patch: pytest.MonkeyPatch, room: object, name: str) -> None:
    """Let the call succeed, but lose its answer."""
    call = getattr(room, name)

    def lost(*args: Any) -> None:
        call(*args)
        raise StoreUnavailable("The connection broke after the commit.")

    patch.setattr(room, name, lost)
