"""A worker and its lease, on both databases: what it may do while it trusts the lease, and what a closed worker may
not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ostinato.core.errors import LeaseLost
from ostinato.core.model import Finished
from ostinato.engine.worker import Worker
from ostinato.store import settling
from tests.build import SECOND
from tests.engine.at_work import NOTHING, Gate, at_a_gate, idle
from tests.engine.conftest import LEASE, Rig
from tests.test_work import counted_statements
from tests.waiting import until


async def test_a_worker_that_does_not_trust_its_lease_starts_nothing_and_saves_no_checkpoint(rig: Rig):
    gate, first, worker = await at_a_gate(rig)
    gate.started[0].save_checkpoint({"page": 1})
    rig.enqueue()
    rig.clock.advance(0.8 * LEASE)
    assert await worker.step() == NOTHING
    with pytest.raises(LeaseLost):
        gate.started[0].save_checkpoint({"page": 2})
    assert rig.live(first)[0].checkpoint == '{"page":1}'
    worker.lease.renew(worker.running)
    assert (await worker.step()).moved == 1
    gate.started[0].save_checkpoint({"page": 2})
    assert rig.live(first)[0].checkpoint == '{"page":2}'


async def test_a_claim_that_took_too_long_is_handed_back_unstarted(rig: Rig, monkeypatch):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    claim = rig.store.queue.claim

    def slow(*args: Any) -> Any:
        claimed = claim(*args)
        rig.clock.advance(LEASE)
        return claimed

    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "claim", slow)
        await worker.step()
    await idle(worker)
    assert gate.started == []
    (live,) = rig.live(job_id)
    assert (live.worker_id, live.attempt, live.releases) == (None, 0, 1)


async def test_a_worker_whose_row_is_closed_stops_its_tasks_and_comes_back_under_a_new_id(rig: Rig, caplog):
    gate = Gate(rig)
    (job_id,) = rig.enqueue(max_retries=0)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    old = worker.lease.worker_id
    close(rig, worker)
    worker.lease.renew(worker.running)
    assert worker.lease.closed
    assert await worker.step() == NOTHING
    worker.abandon()
    await worker.join()
    assert worker.lease.worker_id != old
    await idle(worker)
    assert gate.ended == ["cancelled"]
    assert rig.results(job_id) == ["lost"]
    gate.opened.set()
    assert (await worker.step()).moved == 1
    await idle(worker)
    assert rig.results(job_id) == ["lost", "completed"]
    assert rig.events("result.refused") == []  # it was asked to stop: there was no result


async def test_a_closed_worker_cannot_claim_though_it_does_not_know_yet(rig: Rig):
    Gate(rig)
    worker = await rig.worker()
    rig.enqueue()
    close(rig, worker)
    assert worker.lease.trusted
    assert await worker.step() == NOTHING
    assert rig.running() == []


async def late_result(rig: Rig) -> None:
    """Let a closed worker settle although another runs its execution."""
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    late, other = await rig.worker(), await rig.worker()
    await late.step()
    close(rig, late)
    rig.clock.advance(SECOND)
    await other.step()
    gate.opened.set()
    await idle(late)
    assert rig.results(job_id) == ["lost"], "the late result counted"
    await idle(other)
    assert rig.results(job_id) == ["lost", "completed"]
    assert [event.worker_id for event in rig.events("result.refused")] == [late.lease.worker_id]
    assert rig.telemetry.counts.snapshot()["refused", ""] == 1


async def test_g2_a_late_result_is_refused_and_counted(rig: Rig):
    await late_result(rig)


# -- without the mechanism the tests above fail


async def test_without_the_fence_a_late_result_would_count(rig: Rig, monkeypatch):
    def held_by_anybody(lives: Any, each: Finished) -> Any:
        return next(iter(lives.get(each.live.job_id, ())), None)

    monkeypatch.setattr(settling, "_still_held", held_by_anybody)
    with pytest.raises(AssertionError, match="the late result counted"):
        await late_result(rig)


async def test_without_the_look_at_its_row_a_closed_worker_would_claim(rig: Rig, monkeypatch):
    Gate(rig)
    worker = await rig.worker()
    (job_id,) = rig.enqueue()
    close(rig, worker)
    rig.store.database.load(
        "-- name: open_queues\nSELECT q.name, q.max_queued FROM {workers} AS w CROSS JOIN {queues} AS q "
        "WHERE w.id = :worker AND w.renewed_at >= :at_least AND q.paused_at IS NULL"
    )
    claim = rig.store.database.statements["claim"]  # on PostgreSQL it checks the lease too
    blind = replace(claim, sql=claim.sql.replace(" AND closed_at IS NULL", ""))
    monkeypatch.setitem(rig.store.database.statements, "claim", blind)
    assert (await worker.step()).moved == 1
    assert [live.job_id for live in rig.running()] == [job_id]


def close(rig: Rig, worker: Worker) -> None:
    """Close a worker as a sweeper does that believes it dead."""
    (seen,) = [each for each in rig.store.workers.leases() if each.worker_id == worker.lease.worker_id]
    rig.store.workers.close_lost(seen, rig.clock.now())


async def test_a_worker_describes_its_tasks_once_and_not_with_each_renewal(rig, monkeypatch):
    """After a lost lease it may be older than the worker that has described them since."""

    def typed(x: int): ...

    rig.task(typed)
    with counted_statements(monkeypatch) as names:
        worker = await rig.worker()
        worker.lease.renew(0)
        worker.abandon()
        await worker.join()
    assert (names.count("insert_worker"), names.count("describe_tasks"), "renew" in names) == (2, 1, True)
    (told,) = rig.store.workers.task_schemas(["typed"]).values()
    assert told.args["properties"] == {"x": {"type": "integer"}}
