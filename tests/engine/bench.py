"""A runner to try tasks on, and a loop whose time jumps."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ostinato.clock import ManualClock
from ostinato.core.outcome import Outcome
from ostinato.engine.runner import Runner
from ostinato.engine.running import Running
from ostinato.engine.threads import Threads
from ostinato.task import Context, Task
from tests.build import NOW, a_definition, a_live
from tests.waiting import PATIENCE


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop on which time passes only when nothing else is left to do, and then at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._really_select = self._selector.select
        self._selector.select = self._jump  # type: ignore[method-assign]

    def time(self) -> float:
        return getattr(self, "now", 0.0)

    def _jump(self, timeout: float | None = None) -> Any:
        if timeout is None:  # nothing but another thread can go on
            return self._really_select(PATIENCE)
        ready = self._really_select(0)
        if not ready:
            self.now += timeout
        return ready


class Bench:
    """A runner, and the outcomes of its runs."""

    def __init__(self, threads: Threads) -> None:
        self.outcomes: list[Outcome] = []
        self.order: list[Running] = []
        self._finished = asyncio.Event()
        self.runner = Runner(threads, ManualClock(NOW), self._on_finished)
        self.loop = asyncio.get_running_loop()

    def start(self, function: Callable[..., Any], timeout: timedelta | None = None, **args: Any) -> Running:
        return self.runner.start(Task(function, "work"), a_context(args), timeout)

    def later(self, seconds: float, call: Callable[..., object], *args: object) -> None:
        self.loop.call_later(seconds, call, *args)

    async def outcome(self) -> Outcome:
        """Return the outcome of the next run to finish."""
        while not self.outcomes:
            self._finished.clear()
            await self._finished.wait()
        return self.outcomes.pop(0)

    def _on_finished(self, running: Running, outcome: Outcome) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.outcomes.append(outcome)
        self.order.append(running)
        self._finished.set()


def a_context(args: dict[str, Any] | None = None) -> Context:
    return Context(a_live(running=True), a_definition(), args or {})


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def for_ever() -> None:
    await asyncio.Event().wait()


async def a_step() -> None:
    """Let the loop run one step."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()
