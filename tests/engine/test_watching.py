"""A worker watches its runs, on both databases: cancelled, lost, progress, runs that do not stop."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ostinato.core import lifecycle
from ostinato.core.errors import StoreUnavailable
from ostinato.engine import worker as worker_module
from ostinato.task import Task
from tests.build import NOW, SECOND
from tests.engine.at_work import Gate, at_a_gate, away, idle
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until


async def test_a_cancelled_job_stops_running(rig: Rig):
    gate, job_id, worker = await at_a_gate(rig)
    await worker.watch()
    assert worker.running == 1
    cancel(rig, job_id)
    await worker.watch()
    await idle(worker)
    assert gate.ended == ["cancelled"]
    (ended,) = rig.store.history.of_job(job_id, 9)
    assert (ended.outcome, ended.by) == ("cancelled", "ops")


async def test_a_run_that_was_taken_away_is_stopped(rig: Rig):
    gate, job_id, worker = await at_a_gate(rig)
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
    gate, job_id, worker = await at_a_gate(rig)
    ctx = gate.started[0]
    ctx.progress(1, of=2)
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":1,"of":2}'
    worker.report_progress(ctx.execution_id, ctx.live.fence - 1, '{"done":9}')
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":1,"of":2}'


async def test_what_was_told_last_is_saved_also_when_nothing_follows(rig: Rig):
    gate, job_id, worker = await at_a_gate(rig)
    gate.started[0].progress(1)
    gate.started[0].progress(2)  # too soon to be saved
    await worker.watch()
    assert rig.live(job_id)[0].progress == '{"done":2}'


async def test_progress_that_could_not_be_saved_is_saved_later(rig: Rig, monkeypatch):
    gate, job_id, worker = await at_a_gate(rig)
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
    others = [rig.chance.id(NOW) for _ in range(200)]

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
    rig.registry.add(Task(lambda: let_go.wait(PATIENCE), "work"))
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    cancel(rig, job_id)
    for _ in range(3):
        await worker.watch()
    assert worker.running == 1
    assert [r.getMessage().split("  ")[0] for r in caplog.records] == ["Run does not stop"]
    let_go.set()
    await idle(worker)
    assert rig.results(job_id) == ["cancelled"]


def cancel(rig: Rig, job_id: Any) -> None:
    rig.store.jobs.change(
        job_id, lambda job, lives, _: lifecycle.cancel(job, lives, rig.clock.now(), rig.chance, "ops")
    )


def release(rig: Rig, job_id: Any) -> None:
    rig.store.jobs.change(
        job_id,
        lambda job, lives, _: lifecycle.release(job, lives, lives[0], rig.clock.now(), rig.chance, "ops"),
    )
