"""A system without free threads or processes: no run hangs, and a run that could not begin uses no retry."""

from __future__ import annotations

import os
import signal
import sys
import threading

import psutil
import pytest

from ostinato.clock import SystemClock
from ostinato.core.outcome import Completed, Deferred, Lost
from ostinato.core.policy import Policies
from ostinato.engine.running import START_AGAIN
from ostinato.isolation import pool
from ostinato.isolation.frames import Frame
from ostinato.isolation.orders import NOT_STARTED, Report
from tests.isolation import work
from tests.isolation.conftest import Bench
from tests.waiting import until


@pytest.fixture
def no_threads(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", refuse)


def is_put_off(outcome: object) -> bool:
    return isinstance(outcome, Deferred) and outcome.until <= SystemClock().now() + START_AGAIN


async def test_without_threads_the_runs_of_a_dead_supervisor_are_told(bench: Bench, no_threads):
    running = bench.start(work.ignores, path=bench.at)
    await bench.reached()
    guardian = psutil.Process(bench.pool.supervisor_pid).ppid()
    no_threads()
    os.kill(bench.pool.supervisor_pid, signal.SIGKILL)
    assert (await bench.end(running)).outcome == Lost("the supervisor of its process died")
    await until(lambda: not psutil.pid_exists(guardian))  # and it is no zombie


async def test_a_pool_that_is_closed_leaves_no_zombie(bench: Bench, no_threads):
    await bench.run(work.nothing)
    guardian = psutil.Process(bench.pool.supervisor_pid).ppid()
    no_threads()
    bench.pool.close()
    await until(lambda: not psutil.pid_exists(guardian))


async def test_a_run_for_which_no_supervisor_can_be_started_is_put_off(bench: Bench, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(pool.subprocess, "Popen", refuse)
        assert is_put_off((await bench.run(work.nothing)).outcome)
    assert (await bench.run(work.nothing)).outcome == Completed()


async def test_a_run_whose_supervisor_never_came_up_is_put_off(bench: Bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        assert is_put_off((await bench.run(work.nothing)).outcome)
    assert (await bench.run(work.nothing)).outcome == Completed()


def test_a_run_for_which_no_child_could_be_forked_has_not_started():
    head = {"ev": "ended", "run": 1, "why": "no process could be started: Resource temporarily unavailable"}
    assert Report.of(Frame(head, b""), Policies()).outcome is NOT_STARTED


async def test_a_run_that_the_pool_does_not_know_is_lost(bench: Bench):
    running = bench.start(work.ignores, path=bench.at)
    await bench.reached()
    running.end_if_missing()
    assert running not in bench.ended
    bench.pool._runs.clear()
    running.end_if_missing()
    running.end_if_missing()  # a run ends only once
    assert (await bench.end(running)).outcome == Lost("the supervisor of its process died")


async def test_a_checkpoint_waits_for_a_thread(bench: Bench, monkeypatch):
    submit, refused = bench.threads.submit, []

    def refuse_once(call: object) -> None:
        if not refused:
            refused.append(call)
            raise RuntimeError("can't start new thread")
        submit(call)

    monkeypatch.setattr(bench.threads, "submit", refuse_once)
    await bench.run(work.tells)
    assert (len(refused), bench.checkpoints) == (1, ['{"seen":7}'])
