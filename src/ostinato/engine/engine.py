"""The loops of dispatcher, worker and sweeper, and their start and stop.

A loop is a timer around a step. It sleeps until there is something to do, is woken by a notification, and falls back to
polling. When the database is unavailable, a duty is retried with growing pauses and continues by itself.

Any other failure of a duty is a bug, here or in a driver: it is logged and retried, since it may pass. If it does not,
the whole engine stops and `run` raises. No worker is better than one that claims and never settles: others notice that
it is missing and replace it.

To stop, the engine gives its runs a grace, then saves their results, then closes the worker's row.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import inf
from typing import Final, Protocol, TypeVar

from ostinato.clock import Clock, MeasuredClock
from ostinato.config import Settings
from ostinato.core.model import Chance
from ostinato.core.payload import MIB
from ostinato.engine.claim_timing import ClaimTiming, HandOff
from ostinato.engine.dispatcher import AHEAD, Dispatcher, StepReport
from ostinato.engine.duties import EngineParts, FeatureDuty, Retrying, duties_of_features, keep_light
from ostinato.engine.lease import Renewing
from ostinato.engine.sweeper import Auditor, Sweeper
from ostinato.engine.threads import StoreThreads, hopping_to
from ostinato.engine.worker import NOTHING_MOVED, Identity, Worker
from ostinato.isolation.plan import ProcessPlan
from ostinato.store.claiming import Claim
from ostinato.store.history import Keep
from ostinato.store.kernel import Kernel
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.task.open_resources import CLOSE_TIMEOUT
from ostinato.telemetry.measures import StoreTimes
from ostinato.telemetry.process_metrics import EndedTotals, ProcessMetrics
from ostinato.telemetry.reports import Telemetry

CANCEL_GRACE: Final = 2.0  # seconds for cancelled tasks to end before the stop continues without them
LEAVE_TIMEOUT: Final = 5.0  # seconds to settle and release, even after the grace is over
QUICK_LEAVE_TIMEOUT: Final = 1.0  # the same, for an immediate stop
CHECK_EVERY: Final = 0.05  # seconds


class Stopping:
    """The stop of an engine's worker, once it is requested."""

    def __init__(self, worker: Worker, retrying: Retrying, telemetry: Telemetry, grace: float) -> None:
        self._worker, self._retrying, self._telemetry, self._grace = worker, retrying, telemetry, grace
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    async def finish(self, why: str, loops: Sequence["asyncio.Task[None]"]) -> None:
        """Stop claiming, let runs end within the grace, then cancel, settle and release."""
        until = asyncio.get_running_loop().time() + self._grace
        self._telemetry.stopping(why, running=self._worker.running)
        self._worker.interrupt_willing()
        await self._wait_for_running(until)
        self._worker.interrupt()
        await self._wait_for_running(asyncio.get_running_loop().time() + CANCEL_GRACE)
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._leave(until)
        await self._close_resources()

    async def _wait_for_running(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while self._worker.running and not self.at_once.is_set() and loop.time() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, loop.time() + CHECK_EVERY)):
                    await self.at_once.wait()

    async def _leave(self, until: float) -> None:
        """Offer results until the grace is over or a second signal comes; the database may be available again by
        then."""
        seconds = max(until - asyncio.get_running_loop().time(), LEAVE_TIMEOUT)
        leaving = asyncio.create_task(self._retrying.until_done(self._worker.leave))
        at_once = asyncio.create_task(self.at_once.wait())
        await asyncio.wait([leaving, at_once], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        try:
            async with asyncio.timeout(QUICK_LEAVE_TIMEOUT):
                await leaving
        except TimeoutError:
            self._telemetry.stopping("without the database: unsettled runs will be settled as lost")

    async def _close_resources(self) -> None:
        """Close the resources of tasks, unless a second signal comes, or one of them does not close in time."""
        closing = asyncio.create_task(self._worker.close_resources())
        at_once = asyncio.create_task(self.at_once.wait())
        done, _ = await asyncio.wait([closing, at_once], timeout=CLOSE_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        at_once.cancel()
        closing.cancel()
        if closing not in done:
            self._telemetry.stopping("without closing all resources of tasks")


T = TypeVar("T")

REPEAT_AFTER: Final = 0.05  # seconds until a step is repeated that left rows to another process
WATCH_EVERY: Final = 1.0  # seconds between reads of cancel marks while something runs
STUCK_AFTER: Final = timedelta(seconds=15)  # beyond three polls; then a dispatcher counts as stuck
DISPATCH_DELAY: Final = 0.003  # seconds that a dispatcher waits for the worker when both are notified
IDLE_CHECK: Final = 0.1  # seconds between checks whether nothing is left to do
SETTLE_PAUSE: Final = 0.005  # seconds between checks whether claims still go first
STORE_THREADS: Final = 12  # one for each loop

log = logging.getLogger("ostinato.engine")


class DueMessenger(Protocol):
    """Messenger that reports due jobs to workers of another system."""

    def keep_up(self) -> None:
        """Send lost messages again; log it if the workers cannot be reached."""


class Engine:
    """Dispatcher, worker and sweeper of one process, and their stop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        settings: Settings,
        *,
        app: str = "",
        version: str = "",
        messenger: DueMessenger | None = None,
    ) -> None:
        """With a `messenger` other workers run the jobs: they get a message at the due time, again if it is lost."""
        self._messenger = messenger
        self._store, self._clock, self._telemetry, self._settings = store, clock, telemetry, settings
        self._executor = StoreThreads(STORE_THREADS)
        processes = ProcessPlan(
            recycle_runs=settings.recycle_runs,
            recycle_memory_mb=settings.recycle_memory_mb,
            grace=settings.stop_grace,
        )
        identity = Identity(
            app, version, settings.queues, settings.concurrency, settings.lease, processes, settings.isolation,
            settings.keep_log_mb * MIB, settings.permits,
        )  # fmt: skip
        kernel = Kernel(store, clock, chance)
        self._outgoing = kernel.outgoing(lambda call: self.worker.in_store(call), settings.permits)
        self.worker: Worker = Worker(
            store, registry, clock, chance, telemetry, identity, self._executor, self._outgoing
        )
        ahead = AHEAD if messenger is None else timedelta(0)  # messages are sent at the due time, not ahead
        self.dispatcher = Dispatcher(store, clock, chance, telemetry, ahead)
        keep = Keep(settings.keep_executions, settings.keep_days)
        self.sweeper = Sweeper(store, clock, chance, telemetry, settings.lease, keep)
        self.auditor = Auditor(store, clock, chance, telemetry)
        self._parts = EngineParts(kernel, settings, telemetry, self._outgoing, self.worker.in_store, self._all_troubles)
        self._feature_duties = list(duties_of_features(self._parts))
        self._retrying = Retrying(telemetry)
        self._hand_off = HandOff[Claim, StepReport]()
        self._timing = ClaimTiming(lambda: asyncio.get_running_loop().time())
        self._due = asyncio.Event()
        grace = settings.shutdown_grace.total_seconds()
        self._stopping = Stopping(self.worker, self._retrying, telemetry, grace)
        self._stop, self._now = self._stopping.asked, self._stopping.at_once
        self._failure: Exception | None = None
        self._until_idle, self._look_every, self._why = False, inf, "asked to"
        self._measured: ProcessMetrics | None = None
        self._renewing: Renewing | None = None

    def measure(self) -> "ProcessMetrics":
        """Start to measure, for `/metrics`. Call it before `run`."""
        if self._measured is None:
            self._telemetry.measure()
            self._executor.times = StoreTimes()
            assert self._telemetry.run_times is not None
            self._measured = ProcessMetrics(
                self._telemetry.counts, self._telemetry.run_times, self._executor.times, EndedTotals()
            )
        return self._measured

    def troubles(self) -> list[str]:
        """List the reasons why nothing comes due here. Safe to call on any thread."""
        found, idle = list[str](), self.dispatcher.idle_for()
        if idle > (3 * self._settings.poll_interval + STUCK_AFTER).total_seconds():
            found.append(f"Nothing has come due here for {idle:.0f} s: the dispatcher does not step.")
        if self.worker.overfull:
            found.append("Too many results cannot be saved: the worker claims no more. Its log says why.")
        return found

    def renewals_overdue(self) -> float:
        """Return the seconds by which the thread of the lease is late. Safe to call on any thread."""
        return 0.0 if self._renewing is None else self._renewing.overdue()

    # -- start and stop

    def stop(self) -> None:
        """Stop in order; a second call stops at once. Call it on the loop."""
        if self._stop.is_set():
            self._now.set()
        self._stop.set()
        self._wake()

    def stop_when_idle(self) -> None:
        """Stop as soon as nothing may start and nothing is due. Call it before `run`."""
        self._until_idle, self._look_every = True, IDLE_CHECK

    async def run(self) -> None:
        """Work until `stop` is called; raise a failure that makes work impossible."""
        hop = hopping_to(asyncio.get_running_loop())
        wake, wake_dispatcher = hop(self._wake), hop(self._wake_dispatcher)
        listener = self._store.database.listen(lambda: wake_dispatcher() if self._hand_off.run() else wake())
        self._renewing = renewing = Renewing(
            self.worker.lease,
            self._settings.renew,
            lambda: self.worker.running,
            hop(self._wake),
            hop(self._fail),
        )
        duties: list[Callable[[], Awaitable[None]]] = [
            self._dispatch,
            self._work,
            self._watch,
            self._write_logs,
            self._sweep,
            self._tidy,
            self._upkeep,
            *(partial(self._repeat, each) for each in self._feature_duties),
        ]
        if self._store.database.elsewhere:
            duties.append(self._settle)
        if self._messenger is not None:
            duties.append(self._recover)
        if self._measured is not None:
            duties.append(self._measure)
        loops = [asyncio.create_task(self._guarded(each)) for each in duties]
        try:
            await self._stop.wait()
            why = self._why if self._failure is None else "after a failure"
            await self._stopping.finish(why, loops)
        finally:
            for each in loops:
                each.cancel()
            renewing.close()
            listener.close()
            self.worker.close()
            await self._outgoing.close()
            self._executor.shutdown()
        if self._failure is not None:
            raise self._failure

    async def _guarded(self, duty: Callable[[], Awaitable[None]]) -> None:
        try:
            await duty()
        except Exception as error:  # noqa: BLE001  one failing loop must stop the others too
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._stop.set()
        self._now.set()

    # -- the loops

    async def _dispatch(self) -> None:
        await self._retrying.until_done(lambda: self.worker.in_store(self.dispatcher.start))
        while not self._stop.is_set():
            self._due.clear()
            # asked before the step: the end of a run may give the step more to do
            quiet = self._until_idle and not (self.worker.held or self.dispatcher.waits)
            step = await self._retrying.until_done(lambda: self.worker.in_store(self.dispatcher.step))
            if step.moved:
                self._wake_worker()
            elif quiet and await self._retrying.until_done(self.worker.is_idle):
                self._why = "idle"
                self._stop.set()
            await self._sleep(self._due, min(self._pause(step), self._look_every))

    async def _work(self) -> None:
        """Claim, then settle earlier results (SQLite): claimed runs start meanwhile on the other core, since a settle
        hardly needs Python."""
        here = not self._store.database.elsewhere
        while True:
            self.worker.wake.clear()
            if self._timing.is_due(self.worker.free):
                self._timing.begin()
                self._finish_claim(await self._retrying.until_done(self._take_up_work))
            if here and not self.worker.claims_first:
                await self._retrying.until_done(self.worker.flush)
            if here and self.worker.unsettled:
                await self._sleep(self.worker.wake, 0)
            else:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        """Sleep until a notification. If no run can block the loop meanwhile, the listening thread makes the claim."""
        idle = not (self.worker.running or self.worker.doubtful or self.worker.wake.is_set() or self._stop.is_set())
        order = self.worker.order() if idle else None
        if order is None:
            await self._sleep(self.worker.wake, self._timing.pause)
            return
        self._hand_off.offer(
            lambda: self._executor.timed(order.make),
            lambda claim: self.worker.took(claim, order),
            self.worker.wake.set,
        )
        try:
            await self._sleep(self.worker.wake, self._timing.pause)
            step = await self._hand_off.fetch()
        except asyncio.CancelledError:
            self._hand_off.withdraw()
            raise
        except Exception:  # noqa: BLE001  the claim made next meets the same error and reports it
            self.worker.doubt()
            self._timing.notify()
            return
        if step is not None:
            self._finish_claim(step)  # a later notification may be about work that came after this claim

    def _finish_claim(self, step: StepReport) -> None:
        self._timing.finish(self._pause(step), cramped=self.worker.cramped)

    async def _settle(self) -> None:
        """Settle beside the claims, if the database is another process. (On SQLite both would wait for each other's
        write lock: there `_work` does one after the other.)"""
        while True:
            self.worker.ended.clear()
            while self.worker.claims_first:
                await asyncio.sleep(SETTLE_PAUSE)
            await self._retrying.until_done(self.worker.flush)
            await self.worker.ended.wait()

    async def _upkeep(self) -> None:
        upkeep = self._store.database.upkeep
        await keep_light(lambda: self._retrying.until_done(lambda: self.worker.in_store(upkeep)))

    async def _take_up_work(self) -> StepReport:
        if self.worker.lease.closed:
            self.worker.abandon()
        if self._stop.is_set():
            return NOTHING_MOVED
        if self.worker.lease.worker_id is None:
            await self.worker.join()
        return await self.worker.step()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            await self._retrying.until_done(self.worker.watch)

    async def _write_logs(self) -> None:
        while True:
            await self.worker.logs.wait()
            await self._retrying.until_done(self.worker.logs.flush)

    async def _sweep(self) -> None:
        every = min(self._settings.sweep, self.sweeper.look_every).total_seconds()
        while True:
            await self._retrying.until_done(lambda: self.worker.in_store(self.sweeper.step))
            await asyncio.sleep(every)

    async def _tidy(self) -> None:
        """Run the work that can wait, in a loop of its own, so that it delays no other loop."""
        clock = self._clock
        while True:
            await asyncio.sleep(self._settings.sweep.total_seconds())
            if isinstance(clock, MeasuredClock):
                await self._retrying.until_done(lambda: self.worker.in_store(clock.remeasure))
            await self._retrying.until_done(lambda: self.worker.in_store(self.sweeper.tidy))
            await self._retrying.until_done(lambda: self.worker.in_store(self.auditor.step))

    async def _repeat(self, duty: FeatureDuty) -> None:
        while True:
            await self._retrying.until_done(duty.step)
            await asyncio.sleep(duty.pause)

    async def _recover(self) -> None:
        """Send lost messages to other workers again."""
        assert self._messenger is not None
        keep_up = self._messenger.keep_up
        while True:
            await self._retrying.until_done(lambda: self.worker.in_store(keep_up))
            await asyncio.sleep(self._settings.sweep.total_seconds())

    async def _measure(self) -> None:
        """Read the counters regularly: when a job is deleted, its counters go with it."""
        counters = self._store.statistics.counters
        while self._measured is not None:
            found = await self._retrying.until_done(lambda: self.worker.in_store(counters))
            self._measured.executions.take_in(found)
            await asyncio.sleep(self._settings.metrics.total_seconds())

    # -- within

    def _all_troubles(self) -> list[str]:
        schema = [] if self._store.is_current() else ["The schema is not the one of this program."]
        return schema + self.troubles()

    def _wake(self) -> None:
        """Wake both loops. The worker goes first: most notifications are about an execution to start."""
        self._wake_worker()
        self._wake_dispatcher()

    def _wake_dispatcher(self) -> None:
        asyncio.get_running_loop().call_later(DISPATCH_DELAY, self._due.set)

    def _wake_worker(self) -> None:
        self._timing.notify()
        self.worker.wake.set()

    def _pause(self, step: StepReport) -> float:
        """Return the seconds until the next step, at most the poll interval."""
        longest = self._settings.poll_interval.total_seconds()
        if step.wake_at is None:
            return longest
        left = (step.wake_at - self._clock.now()) / timedelta(seconds=1)
        if left <= 0:
            return 0 if step.moved else min(REPEAT_AFTER, longest)
        return min(left, longest)

    async def _sleep(self, event: asyncio.Event, seconds: float) -> None:
        if event.is_set():
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
