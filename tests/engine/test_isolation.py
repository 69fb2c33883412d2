"""A worker whose tasks run in processes: where they run, and what is stored."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ostinato.core.account import Account
from ostinato.core.policy import Isolation
from ostinato.engine.running import START_AGAIN
from ostinato.engine.worker import Identity, Worker
from ostinato.isolation.plan import ProcessPlan
from ostinato.task import Context, Task
from tests.engine.conftest import LEASE, Rig
from tests.isolation import work
from tests.waiting import until


async def a_worker(rig: Rig, functions: Isolation = Isolation.THREAD) -> Worker:
    identity = Identity("tests", "1", (), 5, LEASE, ProcessPlan(), functions)
    worker = Worker(rig.store, rig.registry, rig.clock, rig.chance, rig.telemetry, identity, rig.threads)
    await worker.join()
    return worker


async def settled(rig: Rig, worker: Worker) -> None:
    await worker.step()
    await until(lambda: worker.running == 0)
    while worker.unsettled:
        await worker.flush()


def only(rig: Rig) -> tuple[str | None, Account]:
    (ended,) = rig.store.history.page(10)
    return ended.result, Account.from_json(ended.account)


async def test_a_task_that_asks_for_a_process_has_one_and_its_account_is_kept(rig: Rig):
    rig.registry.add(Task(work.pid, isolation=Isolation.PROCESS))
    rig.enqueue(task="pid")
    worker = await a_worker(rig)
    await settled(rig, worker)
    pid, account = only(rig)
    assert int(pid) > 0
    assert worker._pool.supervisor_pid is not None
    assert account.memory_mb > 5
    worker.close()


@pytest.mark.parametrize("isolation", [Isolation.THREAD, Isolation.PROCESS])
async def test_the_account_names_the_class_of_what_the_task_raised(rig: Rig, isolation: Isolation):
    rig.registry.add(Task(work.raises, isolation=isolation))
    rig.enqueue(task="raises", args='{"kind":"give up"}')
    worker = await a_worker(rig)
    await settled(rig, worker)
    _, account = only(rig)
    assert account.raised == "ostinato.task.signals.GiveUp"
    worker.close()


async def test_the_workers_default_is_for_def_tasks_that_do_not_say_it_themselves(rig: Rig):
    def on_a_thread(ctx: Context) -> str:
        return ctx.task

    async def on_the_loop() -> None:
        pass

    rig.registry.add(Task(on_a_thread, isolation=Isolation.THREAD))
    rig.registry.add(Task(on_the_loop))
    rig.enqueue(task="on_a_thread")
    rig.enqueue(task="on_the_loop")
    worker = await a_worker(rig, Isolation.PROCESS)
    await settled(rig, worker)
    assert worker._pool.supervisor_pid is None
    rig.registry.add(Task(work.pid))
    rig.enqueue(task="pid")
    await settled(rig, worker)
    assert worker._pool.supervisor_pid is not None
    worker.close()


async def test_a_function_that_nobody_can_import_fails_for_good_when_processes_are_the_default(rig: Rig):
    rig.task(lambda_in_disguise())
    (job,) = rig.enqueue(task="local", max_retries=3)
    worker = await a_worker(rig, Isolation.PROCESS)
    await settled(rig, worker)
    (ended,) = rig.store.history.of_job(job, 10)
    assert ended.error_kind == "Invalid"
    assert "cannot run in a process of its own" in ended.error
    assert rig.live() == []


def lambda_in_disguise():
    def local() -> None:
        pass

    return local


async def test_a_thread_run_is_charged_with_its_threads_time(rig: Rig):
    rig.registry.add(Task(work.spins))
    rig.enqueue(task="spins", args='{"seconds": 0.1}')
    worker = await a_worker(rig)
    await settled(rig, worker)
    _, account = only(rig)
    assert 100 <= account.cpu_ms < 1000
    assert account == replace(account, memory_mb=None, stopped=None, exit_code=None)
    worker.close()


async def test_a_worker_that_leaves_has_ended_its_processes_before_it_hands_them_back(rig: Rig, tmp_path):
    rig.registry.add(Task(work.ignores, isolation=Isolation.PROCESS))
    at = str(tmp_path / "at")
    rig.enqueue(task="ignores", args=f'{{"path": "{at}"}}')
    worker = await a_worker(rig)
    await worker.step()
    await until((tmp_path / "at.pid").exists)
    pid = int((tmp_path / "at.pid").read_text())
    worker.interrupt()
    await worker.leave()
    assert not alive(pid)
    (live,) = rig.live()
    assert (live.worker_id, live.attempt) == (None, 0)
    worker.close()


def alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_a_run_that_the_pool_has_forgotten_is_found_lost_by_the_watch(rig: Rig, tmp_path):
    rig.registry.add(Task(work.ignores, isolation=Isolation.PROCESS))
    (job_id,) = rig.enqueue(task="ignores", args=f'{{"path": "{tmp_path}/at"}}')
    worker = await a_worker(rig)
    await worker.step()
    await until((tmp_path / "at.pid").exists)
    worker._pool._runs.clear()
    await worker.watch()
    await worker.flush()
    assert rig.results(job_id) == ["lost"]
    worker.close()


async def test_a_run_that_finds_no_thread_is_released_until_later_and_spends_nothing(rig: Rig, monkeypatch):
    begun = []
    rig.registry.add(Task(lambda: begun.append(1), "work"))
    (job_id,) = rig.enqueue()
    worker = await a_worker(rig)

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        await worker.step()
        await until(lambda: not worker.running)
    await worker.flush()
    (live,) = rig.live(job_id)
    assert (live.attempt, live.failures, live.losses, live.worker_id) == (0, 0, 0, None)
    assert live.run_at == rig.clock.now() + START_AGAIN
    rig.clock.advance(START_AGAIN)
    rig.store.queue.time_has_come(rig.clock.now(), 10)
    await settled(rig, worker)
    assert (rig.results(job_id), len(begun)) == (["completed"], 1)
