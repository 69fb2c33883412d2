"""The stop of a real engine, on a real clock."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ostinato.clock import SystemClock
from ostinato.engine import duties
from ostinato.engine import engine as engine_module
from ostinato.task import Task
from tests.engine.at_work import Gate, away, done, ended, handed_back, running
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until


@pytest.fixture
def rig(sqlite_url: str, monkeypatch):
    monkeypatch.setattr(duties, "FIRST_RETRY", 0.005)
    rig = Rig(sqlite_url)
    rig.clock = SystemClock()
    yield rig
    assert rig.store.audit.problems() == []
    rig.store.close()


async def test_a_stop_lets_what_runs_finish_within_the_grace(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    async with running(rig) as engine:
        await until(lambda: gate.started)
        (late,) = rig.enqueue()
        await until(lambda: engine.worker.running == 2)
        engine.stop()
        (never,) = rig.enqueue()
        for _ in range(3):  # it looks for work and takes none
            engine.worker.wake.set()
            await until(lambda: not engine.worker.wake.is_set())
        gate.opened.set()
        await ended(rig, job_id, "completed")
        await ended(rig, late, "completed")
    assert [live.job_id for live in rig.live()] == [never]  # it claims no more


async def test_after_the_grace_what_runs_is_cancelled_and_handed_back(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    async with running(rig, shutdown_grace="50ms"):
        await until(lambda: gate.started)
    assert gate.ended == ["cancelled"]
    assert handed_back(rig) == [job_id]


async def test_a_second_stop_does_not_wait_for_the_grace(rig: Rig):
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    async with running(rig, shutdown_grace="1h") as engine:
        await until(lambda: gate.started)
        engine.stop()
    assert handed_back(rig) == [job_id]


async def test_a_thread_that_does_not_stop_is_handed_back_all_the_same(rig: Rig, monkeypatch):
    monkeypatch.setattr(engine_module, "CANCEL_GRACE", 0.05)
    let_go = threading.Event()
    rig.registry.add(Task(lambda: let_go.wait(PATIENCE), "work"))
    (job_id,) = rig.enqueue()
    async with running(rig, shutdown_grace="0s") as engine:
        await until(lambda: engine.worker.running)
    assert handed_back(rig) == [job_id]
    let_go.set()


async def test_a_stop_is_heard_while_the_store_is_away_from_the_start(rig: Rig, monkeypatch, caplog):
    monkeypatch.setattr(rig.store.workers, "join", away)
    monkeypatch.setattr(rig.store.queue, "rewind", away)
    async with running(rig):
        await until(lambda: "Database unavailable" in caplog.text)


async def test_a_stop_does_not_wait_long_for_a_store_that_is_away(rig: Rig, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "ostinato")
    monkeypatch.setattr(engine_module, "LEAVE_TIMEOUT", 0.1)
    gate = Gate(rig)
    rig.enqueue()
    async with running(rig, shutdown_grace="0s"):
        await until(lambda: gate.started)
        monkeypatch.setattr(rig.store.workers, "leave", away)
    assert "without the database" in caplog.text
    assert len(rig.store.workers.leases()) == 1  # other workers will settle it as lost


async def test_results_are_offered_for_all_of_the_grace_of_a_stop(rig: Rig, monkeypatch):
    """G15: the database is available again after LEAVE_TIMEOUT, but within the grace."""
    monkeypatch.setattr(engine_module, "LEAVE_TIMEOUT", 0)
    rig.registry.add(Task(done, "work"))
    (job_id,) = rig.enqueue()
    calls, settle = [], rig.store.queue.settle

    def back_at_last(batch: Any) -> Any:
        calls.append(len(batch))
        return away() if len(calls) < 8 else settle(batch)

    monkeypatch.setattr(rig.store.queue, "settle", back_at_last)
    async with running(rig, shutdown_grace="1h"):
        await until(lambda: calls)
    assert rig.results(job_id) == ["completed"]
    assert rig.store.workers.leases() == []


async def test_a_second_stop_does_not_wait_for_a_store_that_is_away(rig: Rig, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "ostinato")
    monkeypatch.setattr(engine_module, "QUICK_LEAVE_TIMEOUT", 0.05)
    monkeypatch.setattr(rig.store.queue, "settle", away)
    rig.registry.add(Task(done, "work"))
    rig.enqueue()
    async with running(rig, shutdown_grace="1h") as engine:
        await until(lambda: engine.worker.unsettled)
        engine.stop()
    assert "without the database" in caplog.text
    assert len(rig.store.workers.leases()) == 1
