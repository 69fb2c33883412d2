"""The code of a child: import the user's code once, then run one task at a time until the supervisor disconnects.

SIGTERM stops the run only if the supervisor has set a byte in shared memory. A service manager may signal every
process of a service; then the worker decides. The task gets `Terminated` once (an `async def` task: CancelledError).
It may clean up until SIGKILL.
"""

import asyncio
import faulthandler
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from mmap import mmap
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TextIO
from uuid import UUID

from ostinato.clock import SystemClock
from ostinato.core.account import class_path
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid, LeaseLost
from ostinato.core.model import Json, Live
from ostinato.core.outcome import Error, Failed, Outcome
from ostinato.core.payload import decode
from ostinato.isolation import limits, system
from ostinato.isolation.frames import BYTES_OF_A_READ, Frame, Head, Unpacking, packed
from ostinato.isolation.orders import FunctionReference, RunOrder, outcome_text
from ostinato.isolation.plan import OUTPUT
from ostinato.isolation.preparing import Surroundings
from ostinato.task import CallReply, Context, Task, Terminated
from ostinato.task.around import known, surrounded
from ostinato.task.context import KEPT, written
from ostinato.task.open_resources import Resources
from ostinato.task.signals import hide_frames_of, of_error, of_value
from ostinato.task.witness import witness_of_environment

if TYPE_CHECKING:
    from ostinato.outgoing import Outgoing

hide_frames_of(__file__)
for _caller in (asyncio.run, asyncio.BaseEventLoop.run_forever):  # these files call async tasks
    hide_frames_of(_caller.__code__.co_filename)

STOP_ASKED: Final = 0  # index of a shared byte, set by the supervisor
BEGUN: Final = 1  # index of a shared byte, set by the child: an order not read can go to another child
PEAK_RATIO: Final = 1.25  # a peak of its children above this ratio of its own memory hides later peaks


class _Child:
    """Process for runs. `connection` leads to the supervisor, with which it shares the two bytes `shared`."""

    def __init__(self, connection: socket.socket, shared: mmap, surroundings: Surroundings) -> None:
        self._connection = connection
        self._shared = shared
        self._surroundings = surroundings
        self._unpacking = Unpacking()
        self._sending = threading.Lock()
        self._broken = dict[str, Error]()
        self.resources = Resources()
        self._reported_resources = False
        self._loop: asyncio.Runner | None = None  # kept while async resources need it
        self._stop: Callable[[], None] | None = None  # stops the present run
        self._raised: str | None = None  # the class of the exception of the present run
        self._in_send = False  # on the main thread: a frame must not be torn by an exception
        self._stop_later = False

    def work(self) -> None:
        """Work until the supervisor disconnects."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        faulthandler.enable()  # a crash in C prints its place on stderr
        self._surroundings.enter()
        logging.basicConfig(handlers=[_LogForwarder(self)], level=self._surroundings.log_level, format="%(message)s")
        self._broken = self._surroundings.import_all()
        self.send({"ev": "ready", "total": _ProcessUsage.now().total})
        while (frame := self._next()) is not None:
            self._run(frame)
        self._close_resources()

    def _close_resources(self) -> None:
        if self._loop is None:
            self.resources.close()
            return
        with self._loop as loop:
            loop.run(self.resources.aclose())

    # -- messages to the supervisor

    def send(self, head: Head, body: bytes = b"") -> None:
        """Send a whole frame, from any thread."""
        ours = threading.current_thread() is threading.main_thread()
        if ours:
            self._in_send = True
        try:
            with self._sending:
                self._connection.sendall(packed(head, body))
        finally:
            if ours:
                self._in_send = False
        if ours and self._stop_later:
            self._stop_later = False
            self._stop_now()

    def ask(self, head: Head, body: bytes) -> bytes:
        """Send a frame and wait for the answer; no other frame arrives while a task runs."""
        self.send(head, body)
        answer = self._next()
        if answer is None:
            raise LeaseLost("The worker of this run has ended.")
        if error := answer.head.get("error"):
            raise (LeaseLost if answer.head["lost"] else Invalid)(error)
        return answer.body

    def _next(self) -> Frame | None:
        data = b""
        while True:
            for frame in self._unpacking.feed(data):
                return frame
            data = self._connection.recv(BYTES_OF_A_READ)
            if not data:
                return None

    # -- one run

    def _run(self, frame: Frame) -> None:
        self._shared[BEGUN] = 1
        signal.signal(signal.SIGTERM, self._on_sigterm)  # an earlier run may have changed the handler
        system.forget_peak()
        before, resting = _ProcessUsage.now(), system.memory_now()
        self._raised = None
        try:
            outcome = self._outcome(frame)
        except Terminated as error:  # the signal came after the task had returned
            outcome = of_error(error, SystemClock().now)
        self._stop = None
        _flush()
        if self.resources and not self._reported_resources:
            self._reported_resources = True
            self.send({"ev": "holds"})
        left, after = _has_children(), _ProcessUsage.now()
        head: Head = {
            "ev": "ended",
            "cpu": after.total - before.total,
            "total": after.total,
            "peak": after.peak_since(before),
            "memory": system.memory_now(),
            "left": left,
            "raised": self._raised,
            "tired": bool(self._broken) or after.of_children > max(before.of_children, PEAK_RATIO * resting),
        }
        self.send(head, outcome_text(outcome))

    def _outcome(self, frame: Frame) -> Outcome:
        order = RunOrder.from_json(frame.body)
        offset = order.now - SystemClock().now()
        for module in order.modules:
            if (broken := self._broken.get(module)) is not None:
                return Failed(broken)
        context = Context(
            order.live, order.definition, decode(order.args), order.worker, _ChildHost(self, order.permits),
            time.monotonic,
        )  # fmt: skip
        context.traceparent = order.traceparent
        policies = order.definition.policies
        try:
            with limits.kept(policies):
                outcome = self._called(order, context, offset)
        except BaseException as error:  # noqa: BLE001  any error of a task is its outcome
            self._raised = class_path(error)
            outcome = limits.named(error, policies) or of_error(error, lambda: SystemClock().now() + offset)
        with suppress(OSError):
            context.flush_progress()
        return outcome

    def _called(self, order: RunOrder, context: Context, offset: timedelta) -> Outcome:
        for module in order.modules:
            if module not in sys.modules:
                self._surroundings.load(module)
        task = _task(order.reference)
        if order.arounds:
            task = surrounded(task, tuple(map(known, order.arounds)))
        if (witness := witness_of_environment()) is not None:
            task = witness.noting(task)
        arguments = task.arguments(context.args)
        context.become_current()
        if task.is_async:
            value = self._run_on_loop(self._awaited(task, context, arguments))
        else:
            self._begin(context, _raise)
            value = task.call(context, arguments)
        self._stop = None
        return of_value(value, context, lambda: SystemClock().now() + offset)

    def _run_on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run like `asyncio.run`, but keep the loop as long as resources live on it."""
        loop = self._loop = self._loop or asyncio.Runner()
        try:
            return loop.run(work)
        finally:
            if not self.resources.on_loop:
                self._loop = None
                loop.close()

    async def _awaited(self, task: Task[..., Any], context: Context, arguments: dict[str, Any]) -> Any:
        running, loop = asyncio.current_task(), asyncio.get_running_loop()

        def stop() -> None:
            if running is not None:
                running.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wake the loop

        self._begin(context, stop)
        return await task.call(context, arguments)

    # -- stopping the run

    def _begin(self, context: Context, stop: Callable[[], None]) -> None:
        def mark_and_stop() -> None:
            context.cancelled = True
            stop()

        self._stop = mark_and_stop
        if self._shared[STOP_ASKED]:  # asked while the run was prepared
            self._stop_now()

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        if not self._shared[STOP_ASKED]:
            return
        if self._in_send:
            self._stop_later = True
        else:
            self._stop_now()

    def _stop_now(self) -> None:
        stop, self._stop = self._stop, None  # only once: a task that goes on is killed
        if stop is not None:
            stop()


class _ChildHost:
    """Host of a task's context: sends its progress, checkpoints and logs to the worker."""

    def __init__(self, child: _Child, permits: Permits) -> None:
        self._child = child
        self.permits = permits

    @property
    def resources(self) -> Resources:
        return self._child.resources

    @property
    def outgoing(self) -> "Outgoing":
        raise Invalid("A task in a process of its own cannot use the worker's outgoing calls.")

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        self._child.send({"ev": "progress"}, progress.encode())

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        self._child.ask({"ev": "checkpoint"}, checkpoint.encode())

    def call(self, live: Live, name: str, request: Any) -> CallReply:
        answer = self._child.ask({"ev": "call", "name": name}, written(request, name).encode())
        return CallReply(*json.loads(answer))

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        head: Head = {"ev": "log", "level": level, "logger": OUTPUT.name, "at": time.time()}
        with suppress(OSError):  # the supervisor has ended, so this child ends soon
            self._child.send(head, str(said).encode("utf-8", "backslashreplace"))
        return True

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        """Do nothing: the pipes carry the output."""


class _LogForwarder(logging.Handler):
    """Log handler that sends records to the worker, which logs them."""

    def __init__(self, child: _Child) -> None:
        super().__init__()
        self._child = child

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, KEPT):
            return
        try:
            head: Head = {"ev": "log", "level": record.levelno, "logger": record.name, "at": record.created}
            self._child.send(head, self.format(record).encode("utf-8", "backslashreplace"))
        except OSError:
            self.handleError(record)


class _ProcessUsage:
    """Usage of this process and of the children it has waited for: microseconds of CPU, bytes of memory."""

    __slots__ = ("of_children", "own_peak", "total")

    def __init__(self, total: int, own_peak: int, of_children: int) -> None:
        self.total, self.own_peak, self.of_children = total, own_peak, of_children

    @classmethod
    def now(cls) -> "_ProcessUsage":
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        unit = 1 if sys.platform == "darwin" else 1024
        return cls(round(seconds * 1e6), own.ru_maxrss * unit, children.ru_maxrss * unit)

    def peak_since(self, before: "_ProcessUsage") -> int:
        """Return the highest peak of one process. A peak of the children counts only if it is a new maximum."""
        return max(self.own_peak, self.of_children if self.of_children > before.of_children else 0)


@lru_cache(1024)
def _task(reference: FunctionReference) -> Task[..., Any]:
    return reference.resolve()


def _raise() -> None:
    raise Terminated("The run was asked to stop.")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _has_children() -> bool:
    """Return True if a process of the run still runs. Wait for ended ones, so that their usage is counted."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def be_child(connection: socket.socket, output: tuple[int, int], shared: mmap, surroundings: Surroundings) -> None:
    """Run as a child in a process just forked. Never return."""
    code = 1
    try:
        _detach_from_supervisor(connection, output)
        _Child(connection, shared, surroundings).work()
        code = 0
    finally:
        with suppress(Exception):
            _run_exit_functions()
        os._exit(code)


def _detach_from_supervisor(connection: socket.socket, output: tuple[int, int]) -> None:
    os.setsid()
    system.adopt_orphans()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output[0], 1)
    os.dup2(output[1], 2)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != connection.fileno():
            with suppress(OSError):
                os.close(int(name))
    connection.setblocking(True)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = _lines_to(1), _lines_to(2)


def _lines_to(descriptor: int) -> TextIO:
    """Open a line-buffered file: a crash must not lose complete lines."""
    return os.fdopen(descriptor, "w", 1, "utf-8", "backslashreplace", closefd=False)


def _run_exit_functions() -> None:
    import atexit

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _flush()
