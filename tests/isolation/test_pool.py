"""The pool: warm processes, replaced in time, none left over."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from itertools import pairwise

import psutil
import pytest

from ostinato.core.outcome import Completed, Lost
from ostinato.isolation.plan import CUT
from ostinato.isolation.pool import LINES_PER_TURN
from tests.isolation import work
from tests.isolation.conftest import Bench, alive
from tests.waiting import until


async def pid_of_a_run(bench: Bench) -> int:
    return int((await bench.run(work.pid)).outcome.result)


def children(bench: Bench) -> list[int]:
    supervisor = bench.pool.supervisor_pid
    return [] if supervisor is None else [each.pid for each in psutil.Process(supervisor).children()]


async def test_a_warm_process_runs_one_task_after_the_other(bench: Bench):
    assert len({await pid_of_a_run(bench) for _ in range(5)}) == 1


async def test_there_are_only_as_many_processes_as_are_needed_and_allowed(bench: Bench):
    runs = [bench.start(work.spins, seconds=0.2) for _ in range(4)]
    most = 0
    for count, running in enumerate(runs, 1):
        await until(lambda: running in bench.ended)  # noqa: B023
        most = max(most, len(children(bench)))
        assert len(bench.ended) >= count
    assert most == 2


async def test_a_process_is_replaced_after_so_many_runs(bench: Bench):
    bench.use(size=1, recycle_runs=2)
    pids = [await pid_of_a_run(bench) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]
    await until(lambda: not alive(pids[0]))


async def test_a_process_that_has_grown_is_replaced(bench: Bench):
    bench.use(size=1, recycle_memory_mb=50)
    first = await pid_of_a_run(bench)
    assert int((await bench.run(work.keeps, megabytes=10)).outcome.result) == first
    assert int((await bench.run(work.keeps, megabytes=80)).outcome.result) == first
    assert await pid_of_a_run(bench) != first


async def test_a_process_killed_between_runs_is_not_missed(bench: Bench):
    bench.use(size=1)
    first = await pid_of_a_run(bench)
    os.kill(first, signal.SIGKILL)
    second = await pid_of_a_run(bench)
    assert second != first


async def test_when_the_supervisor_dies_its_runs_are_lost_and_the_next_has_a_new_one(bench: Bench):
    running = bench.start(work.ignores, path=bench.at)
    pid, supervisor = await bench.reached(), bench.pool.supervisor_pid
    os.kill(supervisor, signal.SIGKILL)
    assert (await bench.end(running)).outcome == Lost("the supervisor of its process died")
    assert not alive(pid)
    assert (await bench.run(work.nothing)).outcome == Completed()
    assert bench.pool.supervisor_pid not in (None, supervisor)


@pytest.mark.parametrize("who", ["supervisor", "guardian"])
async def test_whoever_is_killed_the_other_one_ends_also_what_has_left_its_group(bench: Bench, who: str):
    running = bench.start(work.forks, path=bench.at, how=["session", "orphan"])
    pids = [await bench.reached(), await bench.reached("grandchild")]
    supervisor = psutil.Process(bench.pool.supervisor_pid)
    os.kill(supervisor.pid if who == "supervisor" else supervisor.ppid(), signal.SIGKILL)
    assert (await bench.end(running)).outcome == Lost("the supervisor of its process died")
    assert [pid for pid in pids if alive(pid)] == []
    assert psutil.wait_procs([supervisor], 10)[1] == [], "the guardian ends too"
    assert (await bench.run(work.nothing)).outcome == Completed()


async def test_a_flood_of_output_is_cut_and_fills_no_memory(bench: Bench):
    await bench.run(work.nothing)
    bench.lines.clear()
    size = 0

    def sink(line: work.Any) -> None:
        nonlocal size
        size += len(line.text)
        bench.lines[:] = [line]

    bench.pool._sink = sink
    before = psutil.Process().memory_info().rss
    highest, over = before, threading.Event()

    def look() -> None:
        nonlocal highest
        while not over.wait(0.005):
            highest = max(highest, psutil.Process().memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    outcome = (await bench.run(work.floods, megabytes=100)).outcome
    over.set()
    looking.join()
    assert outcome == Completed("100")
    assert size < 11 * work.MB
    assert (bench.lines[0].stream, int(bench.lines[0].text)) == (CUT, 90 * work.MB)
    assert highest - before < 40 * work.MB


async def test_others_have_their_turns_while_many_lines_come(bench: Bench):
    seen = [0]

    async def looks() -> None:
        while True:
            seen.append(len(bench.lines))
            await asyncio.sleep(0)  # another task on the loop

    looking = asyncio.create_task(looks())
    assert (await bench.run(work.says_little_often, lines=100_000)).outcome == Completed()
    looking.cancel()
    assert len(bench.lines) == 100_000
    assert max(later - earlier for earlier, later in pairwise([*seen, len(bench.lines)])) <= 2 * LINES_PER_TURN


async def test_a_worker_that_does_not_keep_up_makes_who_writes_wait(bench: Bench):
    """The supervisor buffers neither output nor log records meanwhile."""
    await bench.run(work.nothing)
    supervisor, loop = psutil.Process(bench.pool.supervisor_pid), bench.runner.loop
    before = supervisor.memory_info().rss
    loop.remove_reader(bench.pool._wire)
    runs = [bench.start(work.logs_much, megabytes=60), bench.start(work.floods, megabytes=9)]
    highest = 0
    for _ in range(100):
        await asyncio.sleep(0.01)  # for other threads: while children write and the pool does not read
        highest = max(highest, supervisor.memory_info().rss)
    assert highest - before < 20 * work.MB
    assert bench.ended.keys().isdisjoint(runs)
    loop.add_reader(bench.pool._wire, bench.pool._read)
    for running in runs:
        assert isinstance((await bench.end(running)).outcome, Completed)
    assert len([line for line in bench.lines if line.stream == "log"]) == 60 * 1024


async def test_nothing_is_started_before_it_is_needed(bench: Bench):
    assert bench.pool.supervisor_pid is None
    await bench.run(work.nothing)
    assert len(children(bench)) == 1
