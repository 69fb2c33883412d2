"""The loops: a real engine in this process, on a real clock, with and without bugs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from ostinato.clock import HOLDS_FOR, MeasuredClock, SystemClock
from ostinato.engine import duties
from ostinato.engine import engine as engine_module
from ostinato.engine import worker as worker_module
from ostinato.engine.lease import MOST_BUGS
from ostinato.task import Task
from tests.engine.at_work import (
    Gate,
    an_engine,
    away,
    done,
    ended,
    handed_back,
    has_offered_its_claim,
    running,
)
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until


@pytest.fixture
def rig(sqlite_url: str):
    rig = Rig(sqlite_url)
    rig.clock = SystemClock()
    yield rig
    assert rig.store.audit.problems() == []
    rig.store.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(duties, "FIRST_RETRY", 0.005)
    monkeypatch.setattr(engine_module, "WATCH_EVERY", 0.02)


# -- work


async def test_it_runs_what_is_enqueued(rig: Rig):
    rig.registry.add(Task(done, "work"))
    async with running(rig):
        (job_id,) = rig.enqueue()
        await ended(rig, job_id, "completed")


async def test_on_sqlite_the_next_are_claimed_before_what_has_ended_is_settled(rig: Rig, monkeypatch):
    """So the claimed run meanwhile; a burst delays settles longer, so there is none here."""
    monkeypatch.setattr(worker_module, "BURST", timedelta(0))
    claim, settle, did = rig.store.queue.claim, rig.store.queue.settle, []

    def claiming(*args: Any) -> Any:
        claimed = claim(*args)
        did.extend("claim" for _ in claimed.claimed)
        return claimed

    def settling(finished: Any) -> Any:
        did.extend("settle" for _ in finished)
        return settle(finished)

    monkeypatch.setattr(rig.store.queue, "claim", claiming)
    monkeypatch.setattr(rig.store.queue, "settle", settling)
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(3)
    async with running(rig, concurrency=1):
        for job_id in jobs:
            await ended(rig, job_id, "completed")
    # The last may be settled twice: the stop can come before its answer.
    assert did[:6] == ["claim", "claim", "settle", "claim", "settle", "settle"]


@pytest.fixture
def brought_on(rig: Rig, monkeypatch) -> list[str]:
    """The names of the threads that claimed, one for each job."""
    claim, threads = rig.store.queue.claim, list[str]()

    def watched(*args: Any) -> Any:
        found = claim(*args)
        threads.extend(threading.current_thread().name for _ in found.claimed)
        return found

    monkeypatch.setattr(rig.store.queue, "claim", watched)
    return threads


async def test_the_listening_thread_claims_at_once(rig: Rig, brought_on: list[str]):
    rig.registry.add(Task(done, "work"))
    async with running(rig) as engine:
        for _ in range(3):
            await has_offered_its_claim(engine)
            (job_id,) = rig.enqueue()
            await ended(rig, job_id, "completed")
    assert brought_on == ["ostinato-notify"] * 3


async def test_but_not_for_a_worker_that_runs_something_which_may_hold_up_its_loop(rig: Rig, brought_on: list[str]):
    gate = Gate(rig)
    async with running(rig) as engine:
        await has_offered_its_claim(engine)
        for number in (1, 2, 3):
            rig.enqueue()
            await until(lambda number=number: len(gate.started) == number)
        gate.opened.set()
    assert [name == "ostinato-notify" for name in brought_on] == [True, False, False]


async def test_a_claim_that_fails_there_is_made_again_and_nothing_is_lost(rig: Rig, monkeypatch, caplog):
    rig.registry.add(Task(done, "work"))
    claim, failed = rig.store.queue.claim, []

    def loses_its_answer(*args: Any) -> Any:
        found = claim(*args)
        if threading.current_thread().name == "ostinato-notify" and not failed:
            failed.append(found.claimed)
            away()
        return found

    monkeypatch.setattr(rig.store.queue, "claim", loses_its_answer)
    async with running(rig) as engine:
        await has_offered_its_claim(engine)
        (job_id,) = rig.enqueue()
        await ended(rig, job_id, "completed")
    assert len(failed) == 1
    assert "Traceback" not in caplog.text


async def test_a_notification_during_a_claim_of_the_listening_thread_is_not_lost(rig: Rig, monkeypatch):
    rig.registry.add(Task(done, "work"))
    claim, claims, go_on = rig.store.queue.claim, [], threading.Event()

    def slow(*args: Any) -> Any:
        found = claim(*args)
        if threading.current_thread().name == "ostinato-notify" and not claims:
            claims.append(found)
            go_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(rig.store.queue, "claim", slow)
    async with running(rig) as engine:
        await has_offered_its_claim(engine)
        (first,) = rig.enqueue()
        await until(lambda: claims)
        monkeypatch.setattr(rig.store.database, "notify", lambda: None)
        (second,) = rig.enqueue()
        engine._wake()
        go_on.set()
        for job_id in (first, second):
            await ended(rig, job_id, "completed")


async def test_a_worker_whose_row_was_closed_comes_back_by_itself(rig: Rig):
    rig.registry.add(Task(done, "work"))
    async with running(rig, lease="1s") as engine:
        await until(lambda: engine.worker.lease.worker_id)
        old = engine.worker.lease.worker_id
        (seen,) = rig.store.workers.leases()
        rig.store.workers.close_lost(seen, rig.clock.now())
        (job_id,) = rig.enqueue()
        await ended(rig, job_id, "completed")
        assert engine.worker.lease.worker_id != old
    assert [row.closed_as for row in rig.store.workers.seen(rig.clock.now())] == ["stopped", "lost"]


async def test_g14_the_store_away_is_one_line_each_way_and_nothing_is_lost(rig: Rig, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "ostinato")
    rig.registry.add(Task(done, "work"))
    async with running(rig) as engine:
        await until(lambda: engine.worker.lease.worker_id)
        with monkeypatch.context() as patch:
            patch.setattr(rig.store.queue, "next_wake", away)
            patch.setattr(rig.store.queue, "claim", claim := Mock(side_effect=away))
            patch.setattr(rig.store.workers, "leases", away)
            (job_id,) = rig.enqueue()
            await until(lambda: "Database unavailable" in caplog.text)
            tries = claim.call_count
            await until(lambda: claim.call_count >= tries + 3)
        await ended(rig, job_id, "completed")
        await until(lambda: "Database available again" in caplog.text)
    assert caplog.text.count("Database unavailable") == 1
    assert caplog.text.count("Database available again") == 1
    assert "Traceback" not in caplog.text


async def test_g5_the_clock_of_the_server_is_measured_again_and_a_jump_is_noticed(rig: Rig):
    ahead, slept = timedelta(0), 0.0
    clock = rig.clock = MeasuredClock(
        lambda: datetime.now(UTC) + timedelta(seconds=slept) + ahead, lambda: time.monotonic() + slept
    )
    async with running(rig, poll_interval="20ms"):
        ahead = timedelta(hours=1)  # the server's clock is set
        await until(lambda: clock._other)
        assert rig.events("clock.jumped") == []
        slept = HOLDS_FOR
        (jump,) = await until_there(lambda: rig.events("clock.jumped"))
        assert 3590 < json.loads(jump.data)["seconds"] < 3610


async def test_an_engine_that_has_stopped_leaves_no_threads_behind(rig: Rig):
    rig.registry.add(Task(lambda: None, "work"))
    before = set(threading.enumerate())
    async with running(rig):
        jobs = rig.enqueue(5)
        for job_id in jobs:
            await ended(rig, job_id, "completed")
    await until(lambda: set(threading.enumerate()) <= before)


async def test_the_database_is_kept_light_while_work_goes_on(rig: Rig, monkeypatch):
    monkeypatch.setattr(duties, "RARELY", 0.01)
    kept = []
    monkeypatch.setattr(rig.store.database, "upkeep", lambda: kept.append(True) or 0)
    async with running(rig):
        await until(lambda: len(kept) >= 3)


# -- bugs


DUTIES = [
    ("dispatcher", "step"),
    ("sweeper", "step"),
    ("sweeper", "tidy"),
    ("worker", "step"),
    ("worker", "watch"),
    ("worker", "flush"),
]


@pytest.mark.parametrize(("who", "duty"), DUTIES)
async def test_a_bug_that_passes_is_told_and_the_loop_goes_on(rig: Rig, monkeypatch, caplog, who, duty):
    rig.registry.add(Task(done, "work"))
    engine = an_engine(rig)
    breaks(monkeypatch, getattr(engine, who), duty, times=MOST_BUGS - 1)
    work = asyncio.create_task(engine.run())
    (job_id,) = rig.enqueue()
    await ended(rig, job_id, "completed")
    await until(lambda: caplog.text.count("A duty of the engine failed") == MOST_BUGS - 1)
    engine.stop()
    await work


@pytest.mark.parametrize(("who", "duty"), DUTIES)
async def test_a_bug_that_stays_ends_the_engine_and_what_ran_is_handed_back(rig, monkeypatch, who, duty):
    gate = Gate(rig)
    engine = an_engine(rig)
    work = asyncio.create_task(engine.run())
    (job_id,) = rig.enqueue()
    await until(lambda: gate.started)
    breaks(monkeypatch, getattr(engine, who), duty, times=10**6)
    engine._wake()
    engine.worker.ended.set()
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(work, PATIENCE)
    if duty != "flush":  # unsettled results are found lost
        assert handed_back(rig) == [job_id]


async def test_a_bug_in_the_auditor_is_one_log_line_a_sweep_and_the_engine_goes_on(rig: Rig, monkeypatch, caplog):
    gate = Gate(rig)
    engine = an_engine(rig)
    monkeypatch.setattr(rig.store.audit, "page", broken)
    work = asyncio.create_task(engine.run())
    (job_id,) = rig.enqueue()
    await until(lambda: gate.started and caplog.text.count("The auditor failed") > MOST_BUGS)
    assert "A duty of the engine failed" not in caplog.text
    gate.opened.set()
    await ended(rig, job_id, "completed")
    engine.stop()
    await work
    monkeypatch.undo()  # the rig audits at its end


async def test_a_lease_that_cannot_be_renewed_ends_the_engine(rig: Rig, monkeypatch):
    monkeypatch.setattr(rig.store.workers, "renew", broken)
    engine = an_engine(rig, lease="1s", renew="10ms")
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(engine.run(), PATIENCE)


async def test_a_task_that_blocks_the_loop_does_not_lose_the_lease(rig: Rig):
    blocked = threading.Event()

    async def work() -> None:
        blocked.wait(1.5)

    rig.registry.add(Task(work))
    async with running(rig, lease="1s") as engine:
        (job_id,) = rig.enqueue()
        await ended(rig, job_id, "completed")
        assert rig.events("worker.lost") == []
        assert engine.worker.lease.trusted


async def until_there(find: Callable[[], Any]) -> Any:
    await until(find)
    return find()


def breaks(monkeypatch: pytest.MonkeyPatch, who: object, duty: str, times: int) -> None:
    call: Callable[[], Any] = getattr(who, duty)
    left = [None] * min(times, 1000)

    def bad() -> Any:
        if left:
            left.pop()
            raise RuntimeError("a bug")
        return call()

    monkeypatch.setattr(who, duty, bad)


def broken(*_: object) -> None:
    raise RuntimeError("a bug")


# -- limits across workers


async def test_no_more_run_at_once_than_the_limit_allows_and_all_come_to_their_turn(rig: Rig):
    now, most = 0, 0

    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    rig.registry.add(Task(work))
    ids = rig.enqueue(12, max_concurrency=2)
    async with running(rig, concurrency=8), running(rig, concurrency=8):
        await until(lambda: all(rig.job(job_id).facts.completed == 1 for job_id in ids))
    assert most <= 2
    assert rig.store.audit.problems() == []
