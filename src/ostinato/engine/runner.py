"""The runner: it starts runs on one event loop and passes on their outcomes."""

import asyncio
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Any

from ostinato.clock import Clock
from ostinato.core.outcome import Outcome
from ostinato.core.policy import Isolation
from ostinato.engine.running import RUNNING, OnFinished, OnLoop, OnProcess, OnThread, Running
from ostinato.engine.threads import LoopTasks, Threads
from ostinato.isolation.plan import ProcessPlan
from ostinato.isolation.pool import Pool
from ostinato.task import Context, Task
from ostinato.task.around import RunTracer
from ostinato.task.witness import witness_of_environment


class Runner:
    """Starter of runs on this loop. It passes each outcome to `on_finished` once, on the loop's thread."""

    def __init__(
        self,
        threads: Threads,
        clock: Clock,
        on_finished: OnFinished,
        pool: Pool | None = None,
        functions: Isolation = Isolation.THREAD,
        tracer: RunTracer | None = None,
    ) -> None:
        """`functions`: the default isolation of `def` tasks."""
        self.loop = asyncio.get_running_loop()
        self.loop_tasks = LoopTasks(self.loop)
        self.threads = threads
        self.pool = pool or Pool(ProcessPlan())
        self._functions = RUNNING[functions]
        self.clock = clock
        self.on_finished = on_finished
        self.tracer = tracer
        self._witness = witness_of_environment()
        self._arrivals: deque[tuple[OnThread, Outcome]] = deque()
        self._woken = False

    def start(self, task: Task[..., Any], context: Context, timeout: timedelta | None) -> Running:
        """Start a run. Keep a reference to the result until the run has finished: the loop keeps none."""
        if self._witness is not None:
            task = self._witness.noting(task)
        running = self._kind(task)(self, task, context)
        if self.tracer is not None:
            self.tracer.begin(context)
        running.start(timeout)
        return running

    def runs_in_process(self, task: Task[..., Any]) -> bool:
        return self._kind(task) is OnProcess

    def _kind(self, task: Task[..., Any]) -> type[Running]:
        if task.isolation is None:
            return OnLoop if task.is_async else self._functions
        return RUNNING[task.isolation]

    def hand_back(self, running: OnThread, outcome: Outcome) -> None:
        """Pass on an outcome from a thread. Several outcomes wake the loop once.

        No lock: the outcome is added before the flag is read, and the flag is cleared before outcomes are taken. At
        worst the loop wakes once too often.
        """
        self._arrivals.append((running, outcome))
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: the worker has ended, and this run will be found lost
                self.loop.call_soon_threadsafe(self._take_arrivals)

    def _take_arrivals(self) -> None:
        self._woken = False
        while self._arrivals:
            running, outcome = self._arrivals.popleft()
            running.arrived(outcome)
