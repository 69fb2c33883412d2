"""The runner: starts runs on one event loop, and hands on what each came to."""

import asyncio
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Any

from ostinato.clock import Clock
from ostinato.core.outcome import Outcome
from ostinato.core.policy import Isolation
from ostinato.engine.run_on_loop import Lanes
from ostinato.engine.running import RUNNING, OnFinished, OnLoop, OnProcess, OnThread, Running
from ostinato.engine.threads import Threads
from ostinato.isolation.plan import ProcessPlan
from ostinato.isolation.pool import Pool
from ostinato.task import Context, Task
from ostinato.task.witness import witness_of_environment


class Runner:
    """Starts runs on this loop, and hands each one's outcome to `on_finished`, on the loop's thread, once."""

    def __init__(
        self,
        threads: Threads,
        clock: Clock,
        on_finished: OnFinished,
        pool: Pool | None = None,
        functions: Isolation = Isolation.THREAD,
    ) -> None:
        """`functions`: where `def` tasks run that do not say it themselves."""
        self.loop = asyncio.get_running_loop()
        self.lanes = Lanes(self.loop)
        self.threads = threads
        self.pool = pool or Pool(ProcessPlan())
        self._functions = RUNNING[functions]
        self.clock = clock
        self.on_finished = on_finished
        self._witness = witness_of_environment()
        self._arrivals: deque[tuple[OnThread, Outcome]] = deque()
        self._rung = False

    def start(self, task: Task[..., Any], context: Context, timeout: timedelta | None) -> Running:
        """Start a run. Hold on to what you get until it has finished: the loop itself does not."""
        if self._witness is not None:
            task = self._witness.noting(task)
        running = self._kind(task)(self, task, context)
        running.start(timeout)
        return running

    def runs_in_process(self, task: Task[..., Any]) -> bool:
        return self._kind(task) is OnProcess

    def _kind(self, task: Task[..., Any]) -> type[Running]:
        if task.isolation is None:
            return OnLoop if task.is_async else self._functions
        return RUNNING[task.isolation]

    def hand_back(self, running: OnThread, outcome: Outcome) -> None:
        """Called on a thread that is done. Many that are done at once wake the loop once.

        No lock: the outcome is put down before the bell is looked at, and the bell is unset before outcomes
        are taken, so at worst it rings once too often.
        """
        self._arrivals.append((running, outcome))
        if not self._rung:
            self._rung = True
            with suppress(
                RuntimeError
            ):  # the loop is closed: the worker is gone, and this run will be found lost
                self.loop.call_soon_threadsafe(self._take_arrivals)

    def _take_arrivals(self) -> None:
        self._rung = False
        while self._arrivals:
            running, outcome = self._arrivals.popleft()
            running.arrived(outcome)


async def run_to_outcome(
    task: Task[..., Any], context: Context, timeout: timedelta | None, threads: Threads, clock: Clock
) -> Outcome:
    """Run one task, wait for it, and say what it came to."""
    finished: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    runner = Runner(threads, clock, lambda _, outcome: finished.set_result(outcome))
    running = runner.start(task, context, timeout)
    outcome = await finished
    del running  # held until here
    return outcome
