"""The worker, cranked by hand, on both databases."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import LeaseLost, StoreUnavailable
from ostinato.core.model import Finished, WaitsFor
from ostinato.engine import worker as worker_module
from ostinato.engine.dispatcher import Step
from ostinato.engine.worker import Worker
from ostinato.store import settling
from ostinato.store.claiming import Claiming
from ostinato.store.settling import Settled
from ostinato.task import Context, Registry, Task
from tests.build import NOW, SECOND
from tests.engine.conftest import LEASE, Rig, until

NOTHING = Step(0, None)


class Gate:
    """A task that runs until it is let go, and what it saw."""

    def __init__(self, rig: Rig, name: str = "work") -> None:
        self.opened = asyncio.Event()
        self.started: list[Context] = []
        self.ended: list[str] = []

        async def work(ctx: Context) -> str:
            self.started.append(ctx)
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("returned")
            return "done"

        rig.registry.add(Task(work, name))


async def idle(worker: Worker) -> None:
    """Everything that runs has ended, and is settled."""
    await until(lambda: not worker.running)
    await worker.flush()


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
    assert await worker.step() == Step(0, NOW + SECOND / 2)


async def test_more_than_one_transaction_claims_is_taken_at_once(rig: Rig, monkeypatch):
    Gate(rig)
    monkeypatch.setattr(worker_module, "MOST_AT_ONCE", 3)
    rig.enqueue(5)
    worker = await rig.worker(concurrency=5)
    await worker.step()
    assert worker.bell.is_set()
    worker.bell.clear()
    await worker.step()
    assert worker.running == 5
    assert not worker.bell.is_set()


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


# -- the lease


async def test_a_worker_that_does_not_trust_its_lease_starts_nothing_and_saves_no_checkpoint(rig: Rig):
    gate = Gate(rig)
    (first,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
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
    assert rig.events("result.refused") == []  # it was told to stop: there was no result


async def test_a_closed_worker_cannot_claim_though_it_does_not_know_yet(rig: Rig):
    Gate(rig)
    worker = await rig.worker()
    rig.enqueue()
    close(rig, worker)
    assert worker.lease.trusted
    assert await worker.step() == NOTHING
    assert rig.running() == []


async def late_result(rig: Rig) -> None:
    """A worker that was closed settles all the same, while another runs what it had."""
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


# -- an answer that is lost


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
    rig.registry.add(Task(done, "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    with monkeypatch.context() as patch:
        lose_answers(patch, rig.store.queue, "settle")
        with pytest.raises(StoreUnavailable):
            await worker.flush()
    assert worker.unsettled == 1
    assert await worker.flush() == 1
    assert rig.results(job_id) == ["completed"]
    assert rig.events("result.refused") == []


async def test_g11_what_could_not_be_settled_is_kept_in_order(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(3)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", away)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await worker.flush()
    assert worker.unsettled == 3
    assert await worker.flush() == 3
    assert [rig.results(job_id) for job_id in jobs] == [["completed"]] * 3


async def test_what_the_store_could_not_settle_is_tried_again_later_not_at_once(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    monkeypatch.setattr(worker_module, "LEFT_AGAIN", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "settle", lambda batch: Settled(left=tuple(batch)))
        worker.ended.clear()
        assert await worker.flush() == 1
        assert (worker.unsettled, worker.ended.is_set()) == (0, False)
    await asyncio.wait_for(worker.ended.wait(), 10)
    await worker.flush()
    assert rig.results(job_id) == ["completed"]


# -- watching over what runs


async def test_a_cancelled_job_stops_running(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    await worker.watch()
    assert worker.running == 1
    cancel(rig, job_id)
    await worker.watch()
    await idle(worker)
    assert gate.ended == ["cancelled"]
    (ended,) = rig.store.history.of_job(job_id, 9)
    assert (ended.result, ended.by) == ("cancelled", "ops")


async def test_a_run_that_was_taken_away_is_stopped(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    release(rig, job_id)
    await worker.watch()
    await until(lambda: not worker.running)
    assert gate.ended == ["cancelled"]
    await worker.flush()
    gate.opened.set()
    assert (await worker.step()).moved == 1
    await idle(worker)
    assert rig.results(job_id) == ["completed"]


async def test_progress_is_saved_while_it_runs_and_fenced(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    ctx = gate.started[0]
    ctx.progress(1, of=2)
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":1,"of":2}'
    worker.report_progress(ctx.execution_id, ctx.live.fence - 1, '{"done":9}')
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":1,"of":2}'


async def test_what_was_told_last_is_saved_also_when_nothing_follows(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    gate.started[0].progress(1)
    gate.started[0].progress(2)  # too soon to be told
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":2}'


async def test_progress_that_could_not_be_saved_is_saved_later(rig: Rig, monkeypatch):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    gate.started[0].progress(1)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store.queue, "save_progress", away)
        with pytest.raises(StoreUnavailable):
            await worker.watch()
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":1}'


async def test_progress_told_by_many_threads_at_once_breaks_nothing(rig: Rig):
    Gate(rig)
    rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    (live,) = rig.running()
    over = threading.Event()
    others = [rig.luck.id(NOW) for _ in range(200)]

    def tell() -> None:
        while not over.is_set():
            for n, other in enumerate(others):
                worker.report_progress(other, n, "{}")

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        for _ in range(20):
            await worker.watch()
    finally:
        over.set()
        teller.join()
    assert rig.live(live.job_id)[0].progress is None


async def test_a_run_that_does_not_stop_is_reported_once(rig: Rig, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "ostinato")
    monkeypatch.setattr(worker_module, "STUCK_AFTER", 0 * SECOND)
    let_go = threading.Event()
    rig.registry.add(Task(lambda: let_go.wait(10), "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    cancel(rig, job_id)
    for _ in range(3):
        await worker.watch()
    assert worker.running == 1
    assert [r.getMessage().split("  ")[0] for r in caplog.records] == ["Job does not stop"]
    let_go.set()
    await idle(worker)
    assert rig.results(job_id) == ["cancelled"]


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
    claim = rig.store.queue.claim(worker.lease.worker_id, ("work",), (), NOW, 5)
    assert claim.claimed == ()


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
        "WHERE w.id = :worker AND q.paused_at IS NULL"
    )
    claim = rig.store.database.statements["claim"]  # on PostgreSQL it looks too
    blind = replace(claim, sql=claim.sql.replace(" AND closed_at IS NULL", ""))
    monkeypatch.setitem(rig.store.database.statements, "claim", blind)
    assert (await worker.step()).moved == 1
    assert [live.job_id for live in rig.running()] == [job_id]


async def test_without_its_history_a_settle_is_a_problem(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await idle(worker)
    rig.sql("DELETE FROM {executions} WHERE job_id = :id", id=job_id)
    assert len(rig.store.history.problems()) == 1
    rig.sql("UPDATE {jobs} SET completed = 0 WHERE id = :id", id=job_id)


async def done() -> str:
    return "done"


def away(*_: object) -> None:
    raise StoreUnavailable("away")


def lose_answers(patch: pytest.MonkeyPatch, room: object, name: str) -> None:
    """The call does what it should, but nobody hears of it."""
    call = getattr(room, name)

    def lost(*args: Any) -> None:
        call(*args)
        raise StoreUnavailable("The connection broke after the commit.")

    patch.setattr(room, name, lost)


def close(rig: Rig, worker: Worker) -> None:
    """What a sweeper does with a worker that it believes gone."""
    (seen,) = [each for each in rig.store.workers.leases() if each.worker_id == worker.lease.worker_id]
    rig.store.workers.close_lost(seen, rig.clock.now())


def cancel(rig: Rig, job_id: Any) -> None:
    rig.store.jobs.change(
        job_id, lambda job, lives, _: lifecycle.cancel(job, lives, rig.clock.now(), rig.luck, "ops")
    )


def release(rig: Rig, job_id: Any) -> None:
    rig.store.jobs.change(
        job_id,
        lambda job, lives, _: lifecycle.release(job, lives, lives[0], rig.clock.now(), rig.luck, "ops"),
    )


# -- what goes first

CONCURRENCY = 5


async def test_while_claims_come_back_full_what_has_ended_waits_a_moment(rig: Rig):
    rig.registry.add(Task(done, "work"))
    for _ in range(2 * CONCURRENCY + 1):
        rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    assert (worker.unsettled, worker.claims_first) == (CONCURRENCY, True)
    rig.clock.advance(worker_module.LONGEST_UNSETTLED)
    assert not worker.claims_first  # it would run again after a crash: not for long
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
    monkeypatch.setattr(worker_module, "MOST_UNSETTLED", CONCURRENCY)
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
