"""Loop tasks: asyncio tasks that several runs share, one after the other, as long as none of them waits.

An asyncio task per run costs as much as the rest of its start (3 µs of 6). So a loop task takes the next run if the
last one ended in its first step. A run that waits keeps its loop task for itself; the loop, free again, opens another
for the other runs. A run that waited or was cancelled is the last of its loop task, and each run has its own
contextvars, so no run affects the next.

`charged` measures the time that one coroutine takes of a shared loop.
"""

import asyncio
import time
import types
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol


class LoopRun(Protocol):
    """A run that a loop task awaits."""

    async def go(self, loop_task: "asyncio.Task[Any]") -> bool:
        """Run to the end in any case; return True if it never waited."""
        ...


class LoopTasks:
    """The loop tasks of one loop: they start runs in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting = deque[LoopRun]()
        self._opening = False

    def start(self, run: LoopRun) -> None:
        """Start a run soon, as `asyncio.create_task` would."""
        self._waiting.append(run)
        self._open_soon()

    def _open_soon(self) -> None:
        if not self._opening:
            self._opening = True
            self._loop.call_soon(self._open)

    def _open(self) -> None:
        self._opening = False
        if self._waiting:
            self._loop.create_task(self._loop_task())

    async def _loop_task(self) -> None:
        me = asyncio.current_task(self._loop)
        assert me is not None
        while self._waiting:
            run = self._waiting.popleft()
            if self._waiting:
                self._open_soon()  # for the case that this run waits; otherwise no run is left by then
            if not await run.go(me) or me.cancelling():
                return


CLOCK = time.perf_counter  # the CPU time of the thread is more exact, but ten times as slow to read


class CpuAccount(Protocol):
    """The account that is charged: seconds of CPU, and the number of steps."""

    cpu: float
    steps: int


Within = Callable[[Callable[[Any], Any], Any], Any]  # contextvars.Context.run


@types.coroutine
def charged(coroutine: Any, account: CpuAccount, within: Within) -> Generator[Any, Any, Any]:
    """Await a coroutine in its own contextvars (`within`) and charge each of its steps, not the time between them.

    This is `yield from` written out (PEP 380), with a clock around each step.
    """
    step, sent = coroutine.send, None
    while True:
        began = CLOCK()
        try:
            awaited = within(step, sent)
        except StopIteration as end:
            return end.value
        finally:
            account.cpu += CLOCK() - began
            account.steps += 1
        try:
            step, sent = coroutine.send, (yield awaited)
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001  passed on to the coroutine
            step, sent = coroutine.throw, error
