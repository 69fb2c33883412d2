"""Stopping: once a run has ended, none of its processes is left, whatever its code does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psutil
import pytest

from ostinato.core.account import Stopped
from ostinato.core.outcome import Cancelled, Completed, Interrupted, Lost, TimedOut
from tests.isolation import work
from tests.isolation.conftest import LONG, PATIENCE, SHORT, Bench, alive
from tests.waiting import until

STUBBORN = [work.ignores, work.spins_in_a_sum]


async def test_a_cancelled_run_may_clean_up(bench: Bench):
    bench.use(grace=LONG)
    running = bench.start(work.cleans_up, path=bench.at)
    pid = await bench.reached()
    running.cancel(Cancelled("ops"))
    outcome, account = await bench.end(running)
    assert (outcome, account.stopped) == (Cancelled("ops"), Stopped.TERMINATED)
    assert bench.left("cleaned") == "terminated"
    assert not alive(pid)


async def test_an_async_task_gets_its_cancelled_error(bench: Bench):
    bench.use(grace=LONG)
    running = bench.start(work.awaits, path=bench.at)
    await bench.reached()
    running.cancel(Cancelled())
    assert (await bench.end(running)).account.stopped is Stopped.TERMINATED
    assert bench.left("cleaned") == "cancelled"


async def test_who_swallows_the_error_and_returns_has_not_done_its_work(bench: Bench):
    bench.use(grace=LONG)
    running = bench.start(work.swallows, path=bench.at)
    await bench.reached()
    running.cancel(Cancelled())
    assert (await bench.end(running)).outcome == Cancelled()


@pytest.mark.parametrize("task", STUBBORN, ids=lambda task: task.__name__)
async def test_who_does_not_listen_is_killed_after_the_grace(bench: Bench, task: Callable[..., Any]):
    running = bench.start(task, path=bench.at)
    pid = await bench.reached()
    running.cancel(Cancelled())
    outcome, account = await bench.end(running)
    assert (outcome, account.stopped) == (Cancelled(), Stopped.KILLED)
    assert not alive(pid)
    assert (await bench.run(work.nothing)).outcome == Completed()


async def test_a_pattern_that_never_ends_is_stopped(bench: Bench):
    running = bench.start(work.spins_in_a_pattern, path=bench.at)
    pid = await bench.reached()
    running.cancel(Cancelled())
    outcome, account = await bench.end(running)
    assert outcome == Cancelled()
    assert account.stopped in (Stopped.TERMINATED, Stopped.KILLED)  # some versions of `re` look for signals
    assert not alive(pid)


@pytest.mark.parametrize("how", [[], ["session"], ["orphan"], ["session", "orphan"]], ids=lambda how: "-".join(how))
async def test_what_a_run_forked_is_stopped_with_it(bench: Bench, how: list[str]):
    running = bench.start(work.forks, path=bench.at, how=how)
    pids = [await bench.reached(), await bench.reached("grandchild")]
    assert all(alive(pid) for pid in pids)
    running.cancel(Cancelled())
    outcome, account = await bench.end(running)
    assert (outcome, account.stopped) == (Cancelled(), Stopped.KILLED)
    assert [pid for pid in pids if alive(pid)] == []


@pytest.mark.parametrize("how", [[], ["session", "orphan"]], ids=lambda how: "-".join(how))
async def test_what_a_completed_run_left_behind_ends_with_it(bench: Bench, how: list[str]):
    outcome, account = await bench.run(work.forks, path=bench.at, how=how, stays=False)
    assert (outcome, account.stopped) == (Completed(), None)
    assert not alive(await bench.reached("grandchild"))


@pytest.mark.parametrize("how", [[], ["session", "orphan"]], ids=lambda how: "-".join(how))
async def test_what_a_crashed_run_left_behind_ends_with_it(bench: Bench, how: list[str]):
    running = bench.start(work.forks, path=bench.at, how=how)
    pids = [await bench.reached(), await bench.reached("grandchild")]
    os.kill(pids[0], signal.SIGKILL)
    assert (await bench.end(running)).outcome.error.message == "Killed by SIGKILL"
    assert not alive(pids[1])


@pytest.mark.parametrize("task", [work.cleans_up, work.ignores], ids=lambda task: task.__name__)
async def test_a_timeout_stops_a_run_in_time(bench: Bench, task: Callable[..., Any]):
    await bench.run(work.nothing)  # warm
    timeout = timedelta(seconds=1)

    async def in_time() -> bool:
        running = bench.start(task, timeout=timeout, path=bench.at)
        outcome, account = await bench.end(running)
        took = bench.runner.loop.time() - running.started
        assert outcome == TimedOut(timeout)
        assert account.stopped is (Stopped.KILLED if task is work.ignores else Stopped.TERMINATED)
        assert took >= 1
        return took < 1 + SHORT.total_seconds() + 1.05

    await until(in_time)  # other programs may delay some of them


async def test_a_lost_run_is_stopped_too(bench: Bench):
    running = bench.start(work.ignores, path=bench.at)
    pid = await bench.reached()
    running.cancel(Lost())
    assert (await bench.end(running)).outcome == Lost()
    assert not alive(pid)


async def test_an_interrupted_run_has_a_second_at_most(bench: Bench):
    bench.use(grace=LONG)
    running = bench.start(work.ignores, path=bench.at)
    await bench.reached()
    asked = bench.runner.loop.time()
    running.cancel(Interrupted())
    assert (await bench.end(running)).outcome == Interrupted()
    assert bench.runner.loop.time() - asked < PATIENCE / 2


async def test_a_run_that_waits_for_a_process_is_stopped_before_it_starts(bench: Bench):
    bench.use(size=1)
    first = bench.start(work.cleans_up, path=bench.at)
    await bench.reached()
    second = bench.start(work.ignores, path=str(bench.folder / "never"))
    second.cancel(Cancelled())
    assert (await bench.end(second)).outcome == Cancelled()
    assert not (bench.folder / "never.pid").exists()
    assert first not in bench.ended


async def test_a_wish_that_comes_too_late_changes_nothing(bench: Bench):
    running = bench.start(work.pid)
    await bench.end(running)
    running.cancel(Cancelled())
    again = bench.start(work.pid)
    assert isinstance((await bench.end(again)).outcome, Completed)


async def test_a_sigterm_that_is_not_ours_does_not_stop_a_run(bench: Bench):
    """A service manager signals every process of a service; only the worker decides to stop."""
    bench.use(grace=LONG)
    running = bench.start(work.cleans_up, path=bench.at)
    pid = await bench.reached()
    os.kill(pid, signal.SIGTERM)
    os.kill(bench.pool.supervisor_pid, signal.SIGTERM)
    assert isinstance((await bench.run(work.pid)).outcome, Completed)  # time has passed, and the supervisor works
    assert running not in bench.ended
    assert bench.left("cleaned") is None
    running.cancel(Cancelled())
    await bench.end(running)
    assert bench.left("cleaned") == "terminated"


async def test_when_the_worker_hangs_up_nothing_goes_on(bench: Bench):
    runs = [
        bench.start(work.forks, path=bench.at, how=["session", "orphan"]),
        bench.start(work.ignores, path=bench.at + "2"),
    ]
    pids = [await bench.reached(), await bench.reached("grandchild"), bench.pool.supervisor_pid]
    await until((bench.folder / "at2.pid").exists)
    pids += [child.pid for child in psutil.Process(pids[-1]).children(recursive=True)]
    bench.pool.close()
    await until(lambda: not any(alive(pid) for pid in pids))
    assert bench.ended.keys().isdisjoint(runs)


async def test_a_process_that_ignored_signals_listens_again_in_its_next_run(bench: Bench):
    bench.use(grace=LONG, size=1)
    await bench.run(work.ignores_for_a_moment)
    running = bench.start(work.cleans_up, path=bench.at)
    await bench.reached()
    running.cancel(Cancelled())
    assert (await bench.end(running)).account.stopped is Stopped.TERMINATED
