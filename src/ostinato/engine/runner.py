"""Where running becomes a value."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.outcome import Cancelled, Interrupted, Lost, Outcome
from ostinato.engine.threads import Threads
from ostinato.task import Context, Task


class Running:
    """One run under way. All of it belongs to the loop's thread."""

    execution_id: UUID
    fence: int
    context: Context
    started: float  # loop.time()
    stopping_since: float | None

    def cancel(self, outcome: Cancelled | Interrupted | Lost) -> None:
        """Ask it to stop, and to end as this. Does nothing once it has returned."""


OnFinished = Callable[[Running, Outcome], None]


class Runner:
    """Starts runs on this loop, and hands each outcome to `on_finished` on the loop's thread, once."""

    def __init__(self, threads: Threads, clock: Clock, on_finished: OnFinished) -> None: ...

    def start(self, task: Task[..., Any], context: Context, timeout: timedelta | None) -> Running:
        """Start a run; the caller must hold on to what it gets until it has finished."""
        raise NotImplementedError


async def run_to_outcome(
    task: Task[..., Any], context: Context, timeout: timedelta | None, threads: Threads, clock: Clock
) -> Outcome:
    """Run one, wait for it."""
    raise NotImplementedError
