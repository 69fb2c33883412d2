"""One run on the loop, on a thread or in a process; its end is a value, an Outcome.

`async def` tasks run on the loop, `def` tasks on threads; either runs in a process if so configured. Every run ends
exactly once, in `Running._finish` on the loop's thread. A run may be asked to stop by a wish: a timeout, a cancel
request, a lost lease, or the stop of its worker. The outcome then depends on the place:

  on the loop   The task gets a CancelledError at its next step, and again every second if it goes on. The wish is its
                outcome, whatever it returns or raises: a task that catches the error and returns has not done its
                work. A result from before the wish stands.
  on a thread   A thread cannot be stopped. `ctx.cancelled` becomes true, and the run lasts until the task returns. The
                wish is then its outcome, and a late result changes nothing. Two exceptions: when the worker is
                stopping, a result within the grace stands; when the run is lost, the fence refuses and counts its
                result.
  in a process  The process is asked to stop, and killed after a grace with all processes that it started. The run ends
                with the wish as its outcome when all of them have ended. A result from before the wish stands.

Of two wishes the stronger counts: lost, then cancelled, then timed out, then interrupted.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ostinato.core.account import Account, Stopped, account_text, class_path
from ostinato.core.errors import Invalid, LeaseLost, OstinatoError
from ostinato.core.model import Json
from ostinato.core.outcome import (
    Cancelled,
    Deferred,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.core.payload import cut, decode, encode
from ostinato.core.policy import Isolation
from ostinato.engine.threads import charged
from ostinato.isolation.orders import NOT_STARTED, SUPERVISOR_LOST, FunctionReference, Report, RunOrder
from ostinato.task import Context, Task
from ostinato.task.context import written
from ostinato.task.signals import COMPLETED, described, hide_frames_of, of_error, of_value

if TYPE_CHECKING:
    from ostinato.engine.runner import Runner


# -- Progress and counters of a run in a process, from its messages and its output.
#
# The output comes through pipes, line by line, and is counted here. If a run reports no progress of its own, its last
# line is shown instead.

EVERY: Final = 0.25  # seconds; later updates within this are combined
LONGEST_MESSAGE: Final = 200


class _RunProgress:
    """Progress and counters of one run. It belongs to the loop."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context, self._loop = context, loop
        self._lines = self._bytes = 0
        self._last = ""
        self._silent = True  # no progress of its own so far
        self._timer: asyncio.TimerHandle | None = None

    def progressed(self, progress: Json) -> None:
        """Take over the progress that the run reports from its process."""
        reported = decode(progress)
        self._silent = self._silent and "done" not in reported
        self._context.take_over(reported)

    def wrote(self, lines: int, size: int, last: str) -> None:
        """Count output: so many more lines and bytes; `last` is the last line that is not empty, or ""."""
        self._lines += lines
        self._bytes += size
        self._last = last or self._last
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._report)

    def ended(self, account: Account) -> Account:
        """Return the account of the run with its counters."""
        if self._timer is not None:
            self._report()
        crawled, indexed = self._context.items
        counters = dict(self._context.counters or ())
        code = account.exit_code if account.exit_code is not None else counters.pop("exit_code", None)
        return replace(
            account,
            exit_code=None if code is None else int(code),  # of the process, or of the program that it ran
            items_crawled=crawled,
            items_indexed=indexed,
            counters=tuple(counters.items()) or None,
            traceparent=self._context.traceparent,
        )

    def _report(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        progress: dict[str, Any] = {"counters": {"output_lines": self._lines, "output_bytes": self._bytes}}
        if self._silent:
            progress |= {"done": self._lines, "message": cut(self._last, LONGEST_MESSAGE)}
        self._context.take_over(progress)


# -- One run on the loop, on a thread or in a process; its end is a value, an Outcome

INSIST_EVERY = 1.0  # seconds
START_AGAIN: Final = timedelta(seconds=5)  # until a run is tried again that got no thread or process
INTERRUPT_GRACE = 1.0  # seconds at most, since the worker is stopping

Wish = Interrupted | TimedOut | Cancelled | Lost
WEIGHT: dict[type[Wish], int] = {Interrupted: 1, TimedOut: 2, Cancelled: 3, Lost: 4}

hide_frames_of(__file__)
hide_frames_of(charged.__code__.co_filename)

log = logging.getLogger("ostinato.engine")

OnFinished = Callable[["Running", Outcome], None]


class Running:
    """One run under way. It belongs to the loop's thread, except for the part of its task on another thread."""

    __slots__ = (
        "_arguments",
        "_begun",
        "_over",
        "_runner",
        "_timer",
        "_wish",
        "account",
        "context",
        "cpu",
        "raised",
        "started",
        "stopping_since",
        "task",
    )

    def __init__(self, runner: "Runner", task: Task[..., Any], context: Context) -> None:
        self.task = task
        self.context = context
        self.started = runner.loop.time()
        self.stopping_since: float | None = None  # loop.time(), like `started`
        self.account: Json | None = None  # set when it has finished
        self.raised: str | None = None  # the class of the exception that the task has raised
        self.cpu = 0.0  # seconds: of its steps on the loop, or of its thread
        self._runner = runner
        self._arguments: dict[str, Any] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wish: Wish | None = None
        self._begun = False  # on the loop: its first step has run
        self._over = False  # on a thread: also while its outcome is still on the way to the loop

    @property
    def execution_id(self) -> UUID:
        return self.context.live.id

    @property
    def fence(self) -> int:
        return self.context.live.fence

    def start(self, timeout: timedelta | None) -> None:
        """Start the task. Args that do not fit end the run for good: a retry would not help."""
        try:
            self._arguments = self.task.arguments(self.context.args)
        except Invalid as error:
            self._runner.loop.call_soon(self._finish, Failed(described(error), final=True))
            return
        if timeout is not None:
            seconds = timeout.total_seconds()
            self._timer = self._runner.loop.call_later(seconds, self.cancel, TimedOut(timeout))
        self._begin()

    def cancel(self, wish: Wish) -> None:
        """Ask the run to stop and to end with this wish. Has no effect once the task has returned."""
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

    def _accounted(self, *, stopped: bool) -> Json | None:
        raise NotImplementedError

    def _finish(self, outcome: Outcome) -> None:
        self._over = True
        self._stop_timer()
        self.context.flush_progress()
        decided = self._decided(outcome)
        self.account = self._accounted(stopped=decided is self._wish)
        if self._runner.tracer is not None:
            self._runner.tracer.end(self.context, decided, self.raised)
        self._runner.on_finished(self, decided)

    def end_if_missing(self) -> None:
        """End a run whose thread or process cannot report its end."""

    def _put_off(self, error: BaseException) -> None:
        """Release the run until later, without a retry, since no thread or process is free."""
        log.warning("Run postponed, since it cannot start: execution=%s error=%s", self.execution_id, error)
        self._over = True
        self._runner.loop.call_soon(self._finish, self._later())

    def _later(self) -> Deferred:
        return Deferred(self._runner.clock.now() + START_AGAIN)

    def _before_its_body(self, wish: Wish) -> Wish:
        """End a run before its body began: an interrupted one may start on another worker."""
        if isinstance(wish, Interrupted):
            self._wish = wish = Interrupted()
        return wish

    def _cost(self, how: Stopped | None) -> Json | None:
        context = self.context
        cpu = round(1000 * self.cpu)
        return account_text(cpu, None, how, None, *context.items, context.counters, self.raised, context.traceparent)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _returned(self, value: object) -> Outcome:
        return COMPLETED if value is None else of_value(value, self.context, self._runner.clock.now)

    def _raised(self, error: BaseException) -> Outcome:
        self.raised = class_path(error)
        return of_error(error, self._runner.clock.now)


class OnLoop(Running):
    """A run of an `async def` task."""

    __slots__ = ("_loop_task", "steps")

    def _begin(self) -> None:
        self.steps = 0
        self._runner.loop_tasks.start(self)

    async def go(self, loop_task: asyncio.Task[Any]) -> bool:
        self._loop_task = loop_task
        self._begun = True
        if self._wish is not None:
            self._finish(self._before_its_body(self._wish))
            return True
        own = copy_context()
        own.run(self.context.become_current)
        try:
            coroutine = own.run(self.task.call, self.context, self._arguments)
            outcome = self._returned(await charged(coroutine, self, own.run))
        except GeneratorExit as error:
            if asyncio.current_task(self._runner.loop) is not loop_task:
                raise  # the loop is closed, and this coroutine is being disposed of
            outcome = self._raised(error)
        except BaseException as error:  # noqa: BLE001  any error of a task is its outcome, not the end of the worker
            outcome = self._raised(error)
        self._finish(outcome)
        return self.steps == 1

    def _stop(self) -> None:
        if self._begun:  # a coroutine cancelled before its first step never runs and never finishes
            self._insist()

    def _decided(self, outcome: Outcome) -> Outcome:
        return self._wish or outcome

    def _accounted(self, *, stopped: bool) -> Json | None:
        return self._cost(Stopped.ASYNC if stopped else None)

    def _insist(self) -> None:
        self._loop_task.cancel()
        self._timer = self._runner.loop.call_later(INSIST_EVERY, self._insist)


class OnThread(Running):
    """A run of a `def` task."""

    __slots__ = ()

    def _begin(self) -> None:
        try:
            self._runner.threads.submit(self._run)
        except RuntimeError as error:
            self._put_off(error)

    def _run(self) -> None:
        before = time.thread_time()
        outcome = self._outcome() if self._wish is None else self._before_its_body(self._wish)
        self.cpu = time.thread_time() - before
        self._over = True
        self._runner.hand_back(self, outcome)

    def _outcome(self) -> Outcome:
        self.context.become_current()
        try:
            return self._returned(self.task.call(self.context, self._arguments))
        except BaseException as error:  # noqa: BLE001  any error of a task is its outcome, not the end of the thread
            return self._raised(error)

    def _stop(self) -> None:
        pass  # a thread cannot be stopped; the task may check ctx.cancelled

    def arrived(self, outcome: Outcome) -> None:
        """Finish on the loop; the thread is done."""
        self._finish(outcome)

    def _decided(self, outcome: Outcome) -> Outcome:
        match self._wish:
            case None | Lost():
                return outcome
            case Interrupted() if not _is_plain_failure(outcome):
                return outcome
            case wish:
                return wish

    def _accounted(self, *, stopped: bool) -> Json | None:
        return self._cost(Stopped.COOPERATIVE if stopped else None)


class OnProcess(Running):
    """A run in a process of its own."""

    __slots__ = ("_progress", "_report", "_run")

    def __init__(self, runner: "Runner", task: Task[..., Any], context: Context) -> None:
        super().__init__(runner, task, context)
        self._report: Report | None = None
        self._progress = _RunProgress(context, runner.loop)
        self._run = 0  # none yet

    def _begin(self) -> None:
        context, runner = self.context, self._runner
        try:
            order = RunOrder(
                FunctionReference.to(self.task), context.live, context.definition, encode(context.args),
                context.worker, runner.clock.now(), context.permits,
                tuple(each.reference for each in self.task.arounds), context.traceparent,
            )  # fmt: skip
            self._run = runner.pool.begin(order, self)
        except Invalid as error:
            runner.loop.call_soon(self._finish, Failed(described(error), final=True))
            self._over = True
        except OSError as error:
            self._put_off(error)

    def _stop(self) -> None:
        grace = self._runner.pool.plan.grace.total_seconds()
        interrupted = isinstance(self._wish, Interrupted)
        self._runner.pool.stop(self._run, min(grace, INTERRUPT_GRACE) if interrupted else grace)

    def _decided(self, outcome: Outcome) -> Outcome:
        stopped = self._report is not None and self._report.account.stopped is not None
        return self._wish if stopped and self._wish is not None else outcome

    def _accounted(self, *, stopped: bool) -> Json | None:
        return None if self._report is None else self._progress.ended(self._report.account).to_json()

    # -- messages from the pool

    def ended(self, report: Report) -> None:
        if self._over:
            return
        self._report, self.raised = report, report.account.raised
        self._finish(self._later() if report.outcome is NOT_STARTED else report.outcome)

    def end_if_missing(self) -> None:
        if self._run and not self._runner.pool.knows(self._run):
            self.ended(Report(SUPERVISOR_LOST))

    def progressed(self, progress: Json) -> None:
        self._progress.progressed(progress)

    def wrote(self, lines: int, size: int, last: str) -> None:
        self._progress.wrote(lines, size, last)

    def checkpointed(self, checkpoint: Json) -> None:
        self._answer(lambda: self.context.pass_on_checkpoint(checkpoint))

    def called(self, name: str, request: Json) -> None:
        def answer() -> Json:
            return written(self.context.pass_on_call(name, json.loads(request)), name)

        self._answer(answer)

    def _answer(self, asked: Callable[[], Json | None]) -> None:
        """Answer the task's process from a thread, which may wait for the store."""

        def answer() -> None:
            error, body, lost = None, b"", True
            try:
                body = (asked() or "").encode()
            except OstinatoError as refused:
                error, lost = str(refused), isinstance(refused, LeaseLost)
            except Exception as bug:  # the task must not wait for ever
                log.exception("A call failed: execution=%s", self.execution_id)
                error, lost = f"The call failed in the worker: {type(bug).__name__}.", False
            with suppress(RuntimeError):  # the loop is closed
                send = partial(self._runner.pool.answer, self._run, error, body, lost=lost)
                self._runner.loop.call_soon_threadsafe(send)

        try:
            self._runner.threads.submit(answer)
        except RuntimeError:  # no thread is free now: the task waits in its process
            self._runner.loop.call_later(INSIST_EVERY, self._answer, asked)


RUNNING: Final[dict[Isolation, type[Running]]] = {
    Isolation.ASYNC: OnLoop,
    Isolation.THREAD: OnThread,
    Isolation.PROCESS: OnProcess,
}


def _is_plain_failure(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.retry_in is None and not outcome.final
