"""One process of a simulation: dispatcher, worker and sweeper, on an event loop of a manual clock.

The simulation runs its duties step by step. A process whose duties no longer run behaves as after SIGSTOP, or as after
a crash: its runs stand still in a loop that does not run.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, ParamSpec, Protocol, TypeVar
from uuid import UUID

from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.model import Chance
from ostinato.engine.dispatcher import Dispatcher
from ostinato.engine.sweeper import Auditor, Sweeper
from ostinato.engine.worker import Identity, Worker
from ostinato.store.history import Keep
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.telemetry.reports import Telemetry

# -- An event loop on a manual clock.
#
# The loop's time is the clock's. The loop never sleeps: when nothing is ready, `at_rest` is done, and the simulation
# advances the clock and runs the loop again. So `asyncio.sleep(600)` in a task takes ten minutes of the clock and no
# real time. Threads and sockets are waited for in real time.

P = ParamSpec("P")
T = TypeVar("T")

SOCKET_SILENCE: Final = 0.5  # real seconds without data from an open socket before time may pass
FLOAT_ERROR: Final = 0.0005  # microseconds


class _TimeLapse(asyncio.SelectorEventLoop):
    """An event loop that runs only while something is ready at this instant."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._resting: list[asyncio.Future[None]] = []
        self._threads = 0
        self.until_timer: timedelta | None = None  # the time to the next timer, as of the last rest
        super().__init__(_RestingSelector(self))

    def time(self) -> float:
        return self._clock.monotonic()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and all other tasks until each of them waits for time to pass."""

        async def until_rest() -> T:
            try:
                return await work
            finally:
                await self.at_rest()

        return _call_outside_loop(self.run_until_complete, until_rest())

    def at_rest(self) -> "asyncio.Future[None]":
        """Return a future that is done when nothing is ready any more."""
        self._resting.append(future := self.create_future())
        return future

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Count the calls in threads, so that a rest waits for them."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self._threads -= 1

    # -- for the selector

    @property
    def threads(self) -> int:
        return self._threads

    def rest(self, timeout: float | None) -> None:
        """Resolve the futures of `at_rest`: nothing is ready, and the next timer is `timeout` away."""
        if not self._resting:
            raise RuntimeError("This would wait for ever: time passes only when the simulation advances it.")
        self.until_timer = None if timeout is None else _microseconds(timeout)
        resting, self._resting = self._resting, []
        for future in resting:
            future.set_result(None)


class _RestingSelector(selectors.DefaultSelector):
    """A selector that tells the loop to rest where another selector would sleep."""

    def __init__(self, loop: _TimeLapse) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.threads:
            return super().select(SOCKET_SILENCE)
        found = super().select(SOCKET_SILENCE if len(self.get_map()) > 1 else 0)  # one is the loop's own wake-up socket
        if not found:
            self._loop.rest(timeout)
        return found


class _InlineExecutor(Executor):
    """An executor that runs each call in the caller's thread: the store needs no threads here."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  raised where the result is awaited
            future.set_exception(error)
        return future


def _microseconds(seconds: float) -> timedelta:
    """Round up, so that the timer is due then; an error of floating point alone adds no microsecond."""
    return timedelta(microseconds=max(math.ceil(seconds * 1e6 - FLOAT_ERROR), 1))


def _call_outside_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call directly, or in a thread if a loop runs already: a loop cannot run inside another loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call(*args, **kwargs)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *args, **kwargs).result()


# -- One process of a simulation: dispatcher, worker and sweeper, with their own event loop


class ProcessState(StrEnum):
    WORKING = "working"
    PAUSED = "paused"
    CRASHED = "crashed"
    STOPPED = "stopped"


class _ProcessParts(Protocol):
    """The parts from which a process is made."""

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> ManualClock: ...
    @property
    def chance(self) -> Chance: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def telemetry(self) -> Telemetry: ...


class Process:
    """A worker with its dispatcher and its sweeper."""

    def __init__(self, name: str, parts: _ProcessParts, registry: Registry, app: str = "") -> None:
        self.name = name
        self.state = ProcessState.WORKING
        self.loop = _TimeLapse(parts.clock)
        self.wake_at: list[datetime] = []  # the times of the next work, as of the last turn
        settings, store, clock = parts.settings, parts.store, parts.clock
        identity = Identity(app, "simulated", settings.queues, settings.concurrency, settings.lease)

        async def make_worker() -> Worker:  # a worker belongs to the loop that made it
            return Worker(store, registry, clock, parts.chance, parts.telemetry, identity, _InlineExecutor())

        self.worker = self.loop.run(make_worker())
        self.dispatcher = Dispatcher(store, clock, parts.chance, parts.telemetry)
        keep = Keep(settings.keep_executions, settings.keep_days)
        self.sweeper = Sweeper(store, clock, parts.chance, parts.telemetry, settings.lease, keep)
        self.auditor = Auditor(store, clock, parts.chance, parts.telemetry)

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state}>"

    @property
    def id(self) -> UUID | None:
        """The worker's id in the database."""
        return self.worker.lease.worker_id

    @property
    def working(self) -> bool:
        return self.state is ProcessState.WORKING

    @property
    def running(self) -> int:
        """The number of executions that run now."""
        return self.worker.running

    @property
    def until_timer(self) -> timedelta | None:
        """The time until the next timer of a run."""
        return self.loop.until_timer

    def do(self, duty: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a duty, and let the runs go on until they wait."""
        return self.loop.run(duty())

    def start(self) -> None:
        self.dispatcher.start()
        self.do(self.worker.join)

    def renew(self) -> None:
        """Renew the lease; if it is lost, stop all runs and join again with a new id."""
        self.worker.lease.renew(self.running)
        if self.worker.lease.closed:
            self.worker.abandon()
            self.do(self.worker.join)

    def turn(self) -> int:
        """Run each duty once, and return how many executions moved."""
        fired = self.dispatcher.step()
        claimed = self.do(self.worker.step)
        self.do(self.worker.watch)
        settled = self.do(self.worker.flush)
        self.wake_at = [step.wake_at for step in (fired, claimed) if step.wake_at is not None]
        return fired.moved + claimed.moved + settled

    def wake(self) -> None:
        """Work again after a pause. Runs whose timer has passed go on before the lease is checked."""
        self.state = ProcessState.WORKING
        self.do(_nothing)

    def stop(self) -> None:
        """Stop in order: unfinished runs are released."""
        self.worker.interrupt()
        self.do(self.worker.leave)
        self.do(self.worker.close_resources)
        self.state = ProcessState.STOPPED

    def close(self) -> None:
        """Discard all runs without telling their code; only a crash leaves resources open."""
        if self.state in (ProcessState.WORKING, ProcessState.PAUSED):
            self.do(self.worker.close_resources)
        self.worker.close()
        self.loop.set_exception_handler(lambda *_: None)
        self.loop.close()


async def _nothing() -> None:
    pass
