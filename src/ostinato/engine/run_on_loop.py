"""Lanes: asyncio tasks that runs go through one after the other, as long as none of them waits.

A task of asyncio for each run costs as much as all the rest of starting one (3 µs of 6). So a lane goes on with the
next run when the last one ended in its first step. A run that waits has its lane for itself from then on: the loop,
free again, opens another for the others. Nothing that a run does to its lane reaches the next: one that waited, or
was cancelled, is its last; and each run has contextvars of its own.

The time that one coroutine takes of a loop that many share.
"""

import asyncio
import time
import types
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol


class LaneRun(Protocol):
    """A run that a lane awaits."""

    async def go(self, lane: "asyncio.Task[Any]") -> bool:
        """Run to the end, whatever happens; return True if it never waited."""
        ...


class Lanes:
    """Starts runs, in the order in which they come, on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting = deque[LaneRun]()
        self._opening = False

    def start(self, run: LaneRun) -> None:
        """Let it begin soon, as a task of its own would."""
        self._waiting.append(run)
        self._open_soon()

    def _open_soon(self) -> None:
        if not self._opening:
            self._opening = True
            self._loop.call_soon(self._open)

    def _open(self) -> None:
        self._opening = False
        if self._waiting:
            self._loop.create_task(self._lane())

    async def _lane(self) -> None:
        me = asyncio.current_task(self._loop)
        assert me is not None
        while self._waiting:
            run = self._waiting.popleft()
            if self._waiting:
                self._open_soon()  # for when this one waits; otherwise nothing is left by then
            if not await run.go(me) or me.cancelling():
                return


CLOCK = time.perf_counter  # the CPU time of a thread would be truer, and costs ten times as much to ask for


class Paying(Protocol):
    """The account that is charged: seconds of CPU, and the number of steps."""

    cpu: float
    steps: int


Within = Callable[[Callable[[Any], Any], Any], Any]  # contextvars.Context.run


@types.coroutine
def charged(coroutine: Any, who: Paying, within: Within) -> Generator[Any, Any, Any]:
    """Await a coroutine, `within` its own contextvars, and charge each of its steps: the time between is others'.

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
            who.cpu += CLOCK() - began
            who.steps += 1
        try:
            step, sent = coroutine.send, (yield awaited)
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001  it is the coroutine's to deal with
            step, sent = coroutine.throw, error
