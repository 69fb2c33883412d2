"""The sweeper, driven by hand, on both databases."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import StoreUnavailable
from ostinato.core.model import Change, Status
from ostinato.engine.sweeper import Sweeper
from ostinato.engine.worker import Worker
from ostinato.store import locking
from ostinato.task import Task
from tests.build import HOUR, MINUTE, NOW, SECOND
from tests.engine.at_work import away, done
from tests.engine.conftest import LEASE, Rig
from tests.waiting import until

IN_2036 = datetime(2036, 1, 1, tzinfo=UTC)
SWEEP = LEASE / 4


async def dead(rig: Rig, **given: object) -> Worker:
    """A worker that claimed and never renews again."""
    rig.registry.add(Task(never_ends, "work"))
    rig.enqueue(**given)
    worker = await rig.worker()
    await worker.step()
    return worker


def sweep_for(rig: Rig, sweeper: Sweeper, time: timedelta, *alive: Worker) -> list[Change]:
    """Let time pass, with sweeps and with the renewals of the workers alive."""
    changes = []
    for _ in range(int(time / SWEEP)):
        rig.clock.advance(SWEEP)
        for worker in alive:
            worker.lease.renew(worker.running)
        changes += sweeper.step()
    return changes


async def test_g6_the_work_of_a_dead_worker_is_lost_and_starts_again(rig: Rig):
    worker = await dead(rig)
    sweeper = rig.sweeper()
    assert sweep_for(rig, sweeper, LEASE) == []
    (change,) = sweep_for(rig, sweeper, 2 * SWEEP)
    assert [ended.outcome for ended in change.ended] == ["lost"]
    (live,) = rig.live()
    assert (live.attempt, live.losses, live.worker_id) == (1, 1, None)
    assert rig.store.jobs.status_of(live.job_id) is Status.PENDING  # status, lease and execution together
    (row,) = rig.store.workers.seen(rig.clock.now())
    assert (row.id, row.closed_as) == (worker.lease.worker_id, "lost")
    assert [event.worker_id for event in rig.events("worker.lost")] == [worker.lease.worker_id]
    assert len(rig.events("execution.lost")) == 1
    assert sweep_for(rig, sweeper, 4 * LEASE) == []


async def test_who_renews_keeps_its_work(rig: Rig):
    worker = await dead(rig)
    assert sweep_for(rig, rig.sweeper(), 10 * LEASE, worker) == []
    assert len(rig.running()) == 1


async def test_a_lease_that_has_expired_but_was_only_just_seen_is_left(rig: Rig):
    await dead(rig)
    rig.clock.advance(10 * LEASE)
    sweeper = rig.sweeper()  # a process that starts now
    assert sweeper.step() == []
    rig.clock.advance(LEASE / 2 - SECOND)
    assert sweeper.step() == []
    rig.clock.advance(SECOND)
    assert len(sweeper.step()) == 1


async def test_g11_a_store_that_comes_back_takes_nobodys_work(rig: Rig):
    worker = await dead(rig)
    sweeper = rig.sweeper()
    sweep_for(rig, sweeper, LEASE, worker)
    rig.clock.advance(10 * MINUTE)  # no worker could renew, no sweeper could look
    assert sweeper.step() == []
    worker.lease.renew(worker.running)
    assert sweep_for(rig, sweeper, 4 * LEASE, worker) == []
    assert len(rig.running()) == 1


async def test_g11_a_short_absence_that_ends_after_the_lease_takes_nobodys_work(rig: Rig):
    worker = await dead(rig)
    sweeper = rig.sweeper()
    sweeper.step()
    rig.clock.advance(SWEEP)
    sweeper.step()
    rig.clock.advance(LEASE - SWEEP + SECOND)
    assert sweeper.step() == []
    worker.lease.renew(worker.running)
    assert sweep_for(rig, sweeper, 4 * LEASE, worker) == []


async def test_a_clock_set_forward_takes_nobodys_work(rig: Rig):
    worker = await dead(rig)
    sweeper = rig.sweeper()
    sweep_for(rig, sweeper, LEASE, worker)
    rig.clock.set(rig.clock.now() + 24 * HOUR)
    assert sweeper.step() == []
    assert sweep_for(rig, sweeper, 4 * LEASE, worker) == []


async def test_a_clock_set_back_keeps_no_dead_worker_alive(rig: Rig):
    rig.clock.set(IN_2036)
    await dead(rig)
    sweeper = rig.sweeper()
    sweeper.step()
    rig.clock.set(NOW)
    (change,) = sweep_for(rig, sweeper, LEASE)
    assert [ended.outcome for ended in change.ended] == ["lost"]


async def test_a_clock_set_back_takes_no_work_of_the_living(rig: Rig):
    rig.clock.set(IN_2036)
    worker = await dead(rig)
    sweeper = rig.sweeper()
    sweeper.step()
    rig.clock.set(NOW)
    assert sweep_for(rig, sweeper, 4 * LEASE, worker) == []


async def test_any_number_of_sweepers_lose_it_once(rig: Rig):
    await dead(rig)
    stores = [rig.another_store() for _ in range(3)]
    sweepers = [rig.sweeper(store) for store in stores]
    changes = []
    for _ in range(6):
        rig.clock.advance(SWEEP)
        changes += [change for sweeper in sweepers for change in sweeper.step()]
    assert len(changes) == 1
    assert len(rig.events("worker.lost")) == 1
    for store in stores:
        store.close()


async def test_who_renews_between_the_look_and_the_closing_keeps_its_work(rig: Rig, monkeypatch):
    worker = await dead(rig)
    sweeper = rig.sweeper()
    sweep_for(rig, sweeper, LEASE)
    leases = rig.store.workers.leases

    def look_then_renew():
        seen = leases()
        worker.lease.renew(worker.running)
        return seen

    rig.clock.advance(2 * SWEEP)
    monkeypatch.setattr(rig.store.workers, "leases", look_then_renew)
    assert sweeper.step() == []
    assert len(rig.running()) == 1


async def test_what_stands_under_a_closed_worker_is_settled_too(rig: Rig):
    worker = await dead(rig)
    rig.sql(
        "UPDATE {workers} SET closed_at = :now, closed_as = 'lost' WHERE id = :id",
        now=NOW, id=worker.lease.worker_id,
    )  # fmt: skip
    (change,) = rig.sweeper().step()
    assert [ended.outcome for ended in change.ended] == ["lost"]


async def test_the_third_loss_of_an_occurrence_ends_it(rig: Rig):
    rig.registry.add(Task(never_ends, "work"))
    (job_id,) = rig.enqueue(max_retries=0)
    sweeper, dispatcher = rig.sweeper(), rig.dispatcher()
    for losses in (1, 2, 3):
        worker = await rig.worker()
        dispatcher.step()
        assert (await worker.step()).moved == 1
        assert len(sweep_for(rig, sweeper, LEASE + 2 * SWEEP)) == 1
        assert rig.results(job_id) == ["lost"] * losses
        rig.clock.advance(HOUR)  # the backoff
    assert rig.store.jobs.status_of(job_id) is Status.FAILED
    assert rig.live() == []


async def test_an_operator_wins_over_a_loss(rig: Rig):
    await dead(rig)
    (live,) = rig.live()
    rig.store.jobs.change(
        live.job_id, lambda job, lives, _: lifecycle.cancel(job, lives, rig.clock.now(), rig.chance, "ops")
    )
    sweep_for(rig, rig.sweeper(), 2 * LEASE)
    assert rig.live() == []
    assert rig.store.jobs.status_of(live.job_id) is Status.CANCELLED


async def test_a_sweep_that_could_not_reach_the_store_is_repeated(rig: Rig, monkeypatch):
    await dead(rig)
    sweeper = rig.sweeper()
    sweep_for(rig, sweeper, LEASE)
    rig.clock.advance(2 * SWEEP)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.workers, "close_lost", away)
        with pytest.raises(StoreUnavailable):
            sweeper.step()
    assert len(sweeper.step()) == 1


async def test_tidying_comes_round_to_everything(rig: Rig):
    rig.registry.add(Task(done, "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    await worker.flush()
    sweeper = rig.sweeper()
    sweeper.tidy()
    assert rig.results(job_id) == ["completed"]
    rig.clock.advance(31 * 24 * HOUR)
    sweeper.tidy()
    assert rig.store.jobs.get([job_id]) == {}


async def test_without_its_record_a_skip_is_a_problem(rig: Rig, monkeypatch):
    (job_id,) = rig.add(every=HOUR)
    rig.clock.advance(3 * HOUR)
    with monkeypatch.context() as patch:
        patch.setattr(locking, "_save_skips", lambda *_: None)
        rig.dispatcher().step()
    assert len(rig.store.audit.problems()) == 2  # its counter, its due times
    rig.sql("DELETE FROM {live} WHERE job_id = :id", id=job_id)
    rig.sql("DELETE FROM {jobs} WHERE id = :id", id=job_id)


async def never_ends() -> None:
    await asyncio.Event().wait()
