"""What moves by itself: the duties of dispatcher, worker and sweeper, each in a loop of its own.

A loop is only a timer around a step. Each sleeps until there is something to do, is woken by the doorbell, and
falls back to polling. When the database is away it tries again, later and later, and goes on by itself.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeVar

from ostinato.clock import Clock
from ostinato.config import Settings
from ostinato.core.errors import StoreError
from ostinato.core.model import Luck
from ostinato.engine.dispatcher import Dispatcher
from ostinato.engine.sweeper import Sweeper
from ostinato.engine.worker import Identity, Worker
from ostinato.store.history import Keep
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.telemetry import Telemetry

T = TypeVar("T")

PASSED_OVER: Final = 0.05  # seconds until a step is repeated that left something to another process
WATCH_EVERY: Final = 1.0  # seconds between looks at cancel marks while something runs
FIRST_RETRY: Final = 0.1  # seconds; doubles up to the last
LAST_RETRY: Final = 5.0
CANCEL_GRACE: Final = 2.0  # seconds that cancelled tasks have to end before a stop goes on without them
STORE_THREADS: Final = 3


class Engine:
    """Dispatcher, worker and sweeper of one process, and their stop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        luck: Luck,
        telemetry: Telemetry,
        settings: Settings,
        *,
        app: str = "",
        version: str = "",
    ) -> None:
        self._store, self._clock, self._telemetry, self._settings = store, clock, telemetry, settings
        self._executor = ThreadPoolExecutor(STORE_THREADS, "ostinato-store")
        identity = Identity(app, version, settings.queues, settings.concurrency, settings.lease)
        self.worker = Worker(store, registry, clock, luck, telemetry, identity, self._executor)
        self.dispatcher = Dispatcher(store, clock, telemetry)
        keep = Keep(settings.keep_executions, settings.keep_days)
        self.sweeper = Sweeper(store, clock, luck, telemetry, settings.lease, keep)
        self._due = asyncio.Event()
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._away = False

    # -- life and stop

    def stop(self) -> None:
        """Stop in order; asked again, at once. To be called on the loop."""
        if self._stop.is_set():
            self._now.set()
        self._stop.set()
        self._ring()

    async def run(self) -> None:
        """Work until somebody calls `stop`."""
        loop = asyncio.get_running_loop()
        await self._until_done(self._begin)
        ring = _from_a_thread(loop, self._ring)
        listener = self._store.database.listen(ring)
        renewing = Renewing(self.worker, self._settings.renew, ring)
        loops = [
            asyncio.create_task(each()) for each in (self._dispatch, self._work, self._watch, self._sweep)
        ]
        try:
            await self._stop.wait()
            await self._finish(loops)
        finally:
            for each in loops:
                each.cancel()
            renewing.close()
            listener.close()
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _begin(self) -> None:
        await self.worker.in_store(self.dispatcher.start)
        await self.worker.join()

    async def _finish(self, loops: list["asyncio.Task[None]"]) -> None:
        """Claim no more, give what runs a grace, then cancel and hand back."""
        self._telemetry.stopping("asked to", running=self.worker.running)
        await self._wait_for_running(self._settings.shutdown_grace.total_seconds())
        self.worker.interrupt()
        await self._wait_for_running(CANCEL_GRACE if not self._now.is_set() else 0.2)
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        try:
            async with asyncio.timeout(LAST_RETRY):
                await self._until_done(self.worker.leave)
        except TimeoutError:
            self._telemetry.stopping("without the database: what ran will be found lost")

    async def _wait_for_running(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.worker.running and not self._now.is_set():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await self._sleep(self._now, min(left, PASSED_OVER))

    # -- the loops

    async def _dispatch(self) -> None:
        while not self._stop.is_set():
            self._due.clear()
            step = await self._until_done(lambda: self.worker.in_store(self.dispatcher.step))
            if step.moved:
                self.worker.bell.set()
            await self._sleep(self._due, self._pause(step.wake_at, step.moved))

    async def _work(self) -> None:
        while True:
            self.worker.bell.clear()
            next_at = None
            if not self._stop.is_set():
                next_at = await self._until_done(self._take_up_work)
            await self._until_done(self.worker.flush)
            await self._sleep(self.worker.bell, self._pause(next_at, 1))

    async def _take_up_work(self) -> datetime | None:
        if self.worker.lease.closed:
            self.worker.abandon()
            await self.worker.join()
        return await self.worker.step()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            await self._until_done(self.worker.watch)

    async def _sweep(self) -> None:
        while True:
            await self._until_done(lambda: self.worker.in_store(self.sweeper.step))
            await self._until_done(lambda: self.worker.in_store(self.sweeper.tidy))
            await asyncio.sleep(self._settings.sweep.total_seconds())

    # -- within

    async def _until_done(self, duty: Callable[[], Awaitable[T]]) -> T:
        """Do a duty; while the database is away, again and again, later and later."""
        wait = FIRST_RETRY
        while True:
            try:
                done = await duty()
            except StoreError as error:
                if not self._away:
                    self._away = True
                    self._telemetry.store_away(error)
                await asyncio.sleep(wait)
                wait = min(2 * wait, LAST_RETRY)
                continue
            if self._away:
                self._away = False
                self._telemetry.store_back()
            return done

    def _ring(self) -> None:
        self._due.set()
        self.worker.bell.set()

    def _pause(self, until: datetime | None, moved: int) -> float:
        """How long there is nothing to do: until a time, and never longer than the poll interval."""
        longest = self._settings.poll_interval.total_seconds()
        if until is None:
            return longest
        left = (until - self._clock.now()) / timedelta(seconds=1)
        return min(max(left, 0 if moved else PASSED_OVER), longest)

    async def _sleep(self, bell: asyncio.Event, seconds: float) -> None:
        if bell.is_set() or seconds <= 0:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await bell.wait()


def _from_a_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Callable[[], None]:
    """Call this on the loop, if there still is one."""

    def hop() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    return hop


class Renewing:
    """Renews a worker's lease from a thread of its own: a task that blocks the loop must not lose it."""

    def __init__(self, worker: Worker, every: timedelta, on_closed: Callable[[], None]) -> None:
        self._worker, self._on_closed = worker, on_closed
        self._every = every.total_seconds()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ostinato-lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        wait = self._every
        while not self._over.wait(wait):
            try:
                self._worker.lease.renew(lambda: self._worker.running)
                wait = self._every
            except StoreError:
                wait = min(FIRST_RETRY * 5, self._every)  # the loops tell that the store is away
            if self._worker.lease.closed and not self._over.is_set():
                self._on_closed()
