"""Where running becomes a value: a task is started, and what comes of it is an Outcome.

`async def` tasks run on the loop, `def` tasks on threads. Both end in one place, `Running._finish`, on the
loop's thread, exactly once. Who wins when a run is asked to stop (timeout, cancel, lost lease, worker stopping):

  on the loop   The task gets a CancelledError at its next step, and again every second if it goes on all the
                same. Once asked, it ends as what was asked for, whatever it returns or raises: a task that
                catches the error and returns has not done its work. Before that, its own result stands.
  on a thread   Nothing can stop it: `ctx.cancelled` becomes true, and it stays running until it returns. Then it
                ends as what was asked for; its late result changes nothing. Only when its worker is stopping
                does a result stand: the grace is there to let it finish. When it is lost it is not for us to
                say: the fence refuses the result, and counts it.

Asked twice, the weightier wish counts: lost, then cancelled, then timed out, then interrupted.
"""

import asyncio
import inspect
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.errors import Invalid
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.core.payload import cut, encode_result
from ostinato.engine.threads import Threads
from ostinato.task import Context, Defer, GiveUp, RetryLater, Signal, Task

INSIST_EVERY = 1.0  # seconds
MESSAGE_LIMIT = 8 * 1024  # characters
TRACEBACK_LIMIT = 64 * 1024

Wish = Interrupted | TimedOut | Cancelled | Lost
WEIGHT: dict[type[Wish], int] = {Interrupted: 1, TimedOut: 2, Cancelled: 3, Lost: 4}

COMPLETED = Completed()
NOT_AWAITED = "The task returned a coroutine that nobody awaits; make it an `async def` that awaits it."
OURS = {Task.call.__code__.co_filename, __file__}  # their frames tell nobody anything

OnFinished = Callable[["Running", Outcome], None]


class Running:
    """One run under way. It belongs to the loop's thread, but for what its task does on another."""

    __slots__ = (
        "_arguments",
        "_begun",
        "_over",
        "_runner",
        "_timer",
        "_wish",
        "context",
        "started",
        "stopping_since",
        "task",
    )

    def __init__(self, runner: "Runner", task: Task[..., Any], context: Context) -> None:
        self.task = task
        self.context = context
        self.started = runner.loop.time()
        self.stopping_since: float | None = None  # loop.time(), like `started`
        self._runner = runner
        self._arguments: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wish: Wish | None = None
        self._begun = False  # on the loop: its first step
        self._over = False  # on a thread: also while the outcome is still on its way to the loop

    @property
    def execution_id(self) -> UUID:
        return self.context.live.id

    @property
    def fence(self) -> int:
        return self.context.live.fence

    def start(self, timeout: timedelta | None) -> None:
        """Begin. Args that do not fit are the end of it: trying again would not help."""
        try:
            self._arguments = self.task.arguments(self.context.args)
        except Invalid as error:
            self._runner.loop.call_soon(self._finish, Failed(_described(error), final=True))
            return
        if timeout is not None:
            seconds = timeout.total_seconds()
            self._timer = self._runner.loop.call_later(seconds, self.cancel, TimedOut(timeout))
        self._begin()

    def cancel(self, wish: Wish) -> None:
        """Ask it to stop and to end as this. Does nothing once the task has returned."""
        if self._over:
            return
        if self._wish is None:
            self._wish = wish
            self.stopping_since = self._runner.loop.time()
            self.context.cancelled = True
            self._stop_timer()
            self._stop()
        elif WEIGHT[type(wish)] > WEIGHT[type(self._wish)]:
            self._wish = wish

    def _begin(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError

    def _decided(self, outcome: Outcome) -> Outcome:
        raise NotImplementedError

    def _finish(self, outcome: Outcome) -> None:
        self._over = True
        self._stop_timer()
        self.context.flush_progress()
        self._runner.on_finished(self, self._decided(outcome))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _returned(self, value: object) -> Outcome:
        return COMPLETED if value is None else _of_value(value, self.context, self._runner.clock)

    def _raised(self, error: BaseException) -> Outcome:
        return _of_error(error, self._runner.clock)


class OnLoop(Running):
    """A run of an `async def` task."""

    __slots__ = ("_coroutine",)

    def _begin(self) -> None:
        self._coroutine = self._runner.loop.create_task(self._run())

    async def _run(self) -> None:
        self._begun = True
        if self._wish is not None:
            self._finish(self._wish)
            return
        self.context.become_current()
        try:
            outcome = self._returned(await self.task.call(self.context, self._arguments))
        except GeneratorExit as error:
            if asyncio.current_task(self._runner.loop) is not self._coroutine:
                raise  # the loop is gone, and this is being thrown away
            outcome = self._raised(error)
        except BaseException as error:  # noqa: BLE001  whatever a task raises is its outcome, not the worker's end
            outcome = self._raised(error)
        self._finish(outcome)

    def _stop(self) -> None:
        if self._begun:  # a coroutine that is cancelled before its first step never runs, nor finishes
            self._insist()

    def _decided(self, outcome: Outcome) -> Outcome:
        return self._wish or outcome

    def _insist(self) -> None:
        self._coroutine.cancel()
        self._timer = self._runner.loop.call_later(INSIST_EVERY, self._insist)


class OnThread(Running):
    """A run of a `def` task."""

    __slots__ = ()

    def _begin(self) -> None:
        self._runner.threads.submit(self._run)

    def _run(self) -> None:
        outcome = self._wish or self._outcome()
        self._over = True
        self._runner.hand_back(self, outcome)

    def _outcome(self) -> Outcome:
        self.context.become_current()
        try:
            return self._returned(self.task.call(self.context, self._arguments))
        except BaseException as error:  # noqa: BLE001  whatever a task raises is its outcome, not the thread's end
            return self._raised(error)

    def _stop(self) -> None:
        pass  # nothing stops a thread; the task may look at ctx.cancelled

    def arrived(self, outcome: Outcome) -> None:
        """The thread is done, and this is the loop again."""
        self._finish(outcome)

    def _decided(self, outcome: Outcome) -> Outcome:
        match self._wish:
            case None | Lost():
                return outcome
            case Interrupted() if not _is_plain_failure(outcome):
                return outcome
            case wish:
                return wish


class Runner:
    """Starts runs on this loop, and hands each one's outcome to `on_finished`, on the loop's thread, once."""

    def __init__(self, threads: Threads, clock: Clock, on_finished: OnFinished) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads = threads
        self.clock = clock
        self.on_finished = on_finished
        self._arrivals: deque[tuple[OnThread, Outcome]] = deque()
        self._rung = False

    def start(self, task: Task[..., Any], context: Context, timeout: timedelta | None) -> Running:
        """Start a run. Hold on to what you get until it has finished: the loop itself does not."""
        running = OnLoop(self, task, context) if task.is_async else OnThread(self, task, context)
        running.start(timeout)
        return running

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


def _of_value(value: object, context: Context, clock: Clock) -> Outcome:
    if isinstance(value, Signal):
        return _of_error(value, clock)
    if inspect.iscoroutine(value):
        value.close()
        return Failed(Error("TypeError", NOT_AWAITED), final=True)
    kept = encode_result(value)
    if kept.warning is not None:
        context.log.warning(kept.warning)
    return Completed(kept.text)


def _of_error(error: BaseException, clock: Clock) -> Outcome:
    match error:
        case Defer():
            return Deferred(error.until_from(clock.now()))
        case RetryLater():
            return Failed(_described(error), retry_in=error.delay)
        case GiveUp():
            return Failed(_described(error), final=True)
        case _:
            return Failed(_described(error))


def _described(error: BaseException) -> Error:
    return Error(type(error).__name__, cut(_message(error), MESSAGE_LIMIT), _traceback(error))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001  whatever a stranger's __str__ raises
        return f"(its message cannot be shown: {type(second).__name__})"


def _traceback(error: BaseException) -> str | None:
    """The stack as text, from the task's first line on; None where only we would be in it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in OURS:
        frames = frames.tb_next
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if frames is None and before is None:
        return None
    try:
        return cut("".join(traceback.format_exception(type(error), error, frames)), TRACEBACK_LIMIT)
    except Exception:  # noqa: BLE001  it formats what strangers wrote
        return None


def _is_plain_failure(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.retry_in is None and not outcome.final
