"""The worker: claims what it can start now, runs it, and settles what it came to.

Everything here happens on one event loop; the store is reached only through `in_store`, which hops to a thread. What
was claimed and is not settled is held by the settler (settler.py).

The identity of a worker.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, ParamSpec, TypeVar
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core import builtin
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid, LeaseLost, StoreError, StoreUnavailable
from ostinato.core.model import Chance, Claimed, Definition, FencedId, Json, Live
from ostinato.core.outcome import Cancelled, Error, Failed, Interrupted, Lost, Outcome
from ostinato.core.payload import decode
from ostinato.core.policy import Isolation
from ostinato.engine.claim_timing import ClaimOrder
from ostinato.engine.crawling import REFUSED, CrawlCalls
from ostinato.engine.dispatcher import StepReport
from ostinato.engine.lease import Lease
from ostinato.engine.logbook import Echo, LogBook
from ostinato.engine.long_runs import Overlong, long_runs
from ostinato.engine.runner import Runner
from ostinato.engine.running import Running
from ostinato.engine.settler import MOST_AT_ONCE, Settler
from ostinato.engine.tables import TableCalls
from ostinato.engine.threads import Threads
from ostinato.isolation.plan import ProcessPlan, Written
from ostinato.isolation.pool import Pool
from ostinato.outgoing import Outgoing
from ostinato.store.claiming import Claim
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker
from ostinato.task import Context, Registry
from ostinato.task.describing import describe
from ostinato.task.outcomes import described
from ostinato.telemetry.reports import Telemetry

P = ParamSpec("P")
R = TypeVar("R")

STUCK_AFTER: Final = timedelta(seconds=5)
# What has waited for longer is a backlog: there nothing is won, and settling late costs a tenth to a fifth of the
# throughput.
BURST: Final = timedelta(seconds=0.5)
PROCESSES_HAVE: Final = 1.0  # seconds to be gone after SIGKILL
KEEP_SHOWN: Final = 10 * 1024 * 1024  # bytes of a run's output on the worker's own log, if nothing is kept
STORE_AGAIN: Final = 0.5  # seconds until a turn of a crawl is tried again while the database is away
NOTHING_MOVED: Final = StepReport(0, None)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a worker: its app, queues, concurrency and permissions."""

    app: str
    version: str
    queues: tuple[str, ...]
    concurrency: int
    lease: timedelta
    processes: ProcessPlan = ProcessPlan()
    functions: Isolation = Isolation.THREAD  # where `def` tasks run that do not say it themselves
    keep_log: int = 10 * 1024 * 1024  # bytes of an execution's log
    permits: Permits = Permits()


class Worker:
    """Runs executions; `step`, `flush` and `watch` are its duties, to be called by a loop or by a test."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        identity: Identity,
        executor: Executor,
        outgoing: Outgoing | None = None,
    ) -> None:
        self._store, self._registry, self._clock, self._chance = store, registry, clock, chance
        self._telemetry, self._identity, self._executor = telemetry, identity, executor
        self.outgoing = outgoing or Outgoing()
        self.permits = identity.permits
        self._crawling = CrawlCalls(store.crawls, store.providers, clock)
        self.lease = Lease(store, clock, identity.lease)
        self.tables = TableCalls(store.records, self.lease, clock)
        self.bell = asyncio.Event()  # something to claim, or room for it
        self.cramped = False  # the last claim might have brought more, had there been more room
        self.logs = LogBook(store, clock, self.in_store, identity.keep_log)
        self._running: dict[Running, Claimed] = {}
        self._settler = Settler(store, clock, chance, telemetry, self.logs, self.in_store, self._running)
        self.flush, self.ended = self._settler.flush, self._settler.ended
        self._echo = Echo() if identity.keep_log else Echo(None)
        processes = replace(
            identity.processes, size=identity.concurrency, keep_output=identity.keep_log or KEEP_SHOWN
        )
        self._pool = Pool(processes, self._modules, self._written)
        self._runner = Runner(
            Threads(identity.concurrency), clock, self._on_finished, self._pool, identity.functions
        )
        self._full = False  # the last claim brought as much as there was room for, and it had just come due
        self._progress: dict[FencedId, Json] = {}
        self._overlong = Overlong(store, clock, chance, telemetry)
        self._reported_stuck: set[Running] = set()
        self.doubtful = False  # a claim's answer was lost: something may be held that nobody runs
        self._described = False  # the database has the schemas of its tasks

    async def in_store(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The one place where the loop meets the store."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: call(*args, **kwargs))

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def unsettled(self) -> int:
        """The number of results to be offered to the store now."""
        return self._settler.unsettled

    @property
    def held(self) -> int:
        """The number of claimed executions that are neither settled nor refused."""
        return len(self._settler.held)

    @property
    def overfull(self) -> bool:
        """True if it claims no more, since too many of its results cannot be saved."""
        return self._settler.overfull

    @property
    def claims_first(self) -> bool:
        """True if due executions should start before results are settled: for a moment, and up to a number."""
        return self._full and self._settler.may_wait

    # -- the lease

    async def join(self) -> None:
        """Come to work; after a lost lease, again under a new id. A newer worker may describe its tasks by then."""
        now, who = self._clock.now(), self._identity
        worker = NewWorker(
            self._chance.id(now), who.app, socket.gethostname(), os.getpid(), who.version,
            self._registry.names(), who.queues, who.concurrency, () if self._described else describe(self._registry),
        )  # fmt: skip
        await self.in_store(self.lease.join, worker)
        self._described = True

    def abandon(self) -> None:
        """Told that its row is closed: others have its work now, so do no more harm."""
        if self.lease.worker_id is not None:
            self._telemetry.lease_lost(self.lease.worker_id)
        self.lease.forget()
        self.doubtful = False
        for running in list(self._running):
            running.cancel(Lost())

    # -- claiming

    @property
    def free(self) -> int:
        """The number of executions that it can start now."""
        return 0 if self._settler.overfull else self._identity.concurrency - len(self._running)

    async def step(self) -> StepReport:
        """Claim and start what there is room for."""
        if self.doubtful and self.lease.worker_id is not None:
            await self._resolve_doubt(self.lease.worker_id)
        order = self.order()
        if order is None:
            self._full, self.cramped = False, True
            return NOTHING_MOVED
        try:
            return self.took(await self.in_store(order.make), order)
        except Exception:  # also a bug
            self.doubt()
            raise

    def order(self) -> ClaimOrder | None:
        """A claim that any thread may make, if there is room; who has been in doubt makes it himself, by `step`."""
        room, worker_id = min(self.free, MOST_AT_ONCE), self.lease.worker_id
        if room <= 0 or worker_id is None or self.lease.drain or not self.lease.trusted:
            return None
        tasks, queues, claim = self._registry.names(), self._identity.queues, self._store.queue.claim

        def make() -> Claim:
            if self.lease.drain or not self.lease.trusted:  # by now
                return Claim()
            return claim(worker_id, tasks, queues, self._clock.now, room, self.lease.at_least)

        return ClaimOrder(worker_id, room, make)

    def doubt(self) -> None:
        """Note that a claim failed: it may be committed, and its executions must be handed back."""
        self.doubtful, self._full = True, False

    def took(self, claim: Claim, order: ClaimOrder) -> StepReport:
        """Start what was claimed."""
        for task, count in (claim.parked or {}).items():
            self._telemetry.unknown_task(task, count)
        self.take_up(claim.claimed)
        full = len(claim.claimed) == order.room
        self._full = full and self._clock.now() - claim.claimed[0].live.run_at < BURST
        self.cramped = full
        if full and self.free > 0:
            self.bell.set()
        return StepReport(len(claim.claimed) + sum((claim.parked or {}).values()), claim.next_at)

    async def _resolve_doubt(self, worker_id: UUID) -> None:
        hand_back = self._store.workers.hand_back_unknown
        changes = await self.in_store(hand_back, worker_id, self._settler.held, self._clock.now())
        self._telemetry.changed(changes)
        self.doubtful = False

    def take_up(self, claimed: Sequence[Claimed]) -> None:
        """Start what was claimed. An execution that cannot start has failed, and the others go on."""
        self._telemetry.started(claimed)
        me, trusted = str(self.lease.worker_id), self.lease.trusted
        for each in claimed:
            if not trusted:
                self._end(each, Interrupted())  # the claim took so long that the lease is in doubt
                continue
            try:
                self._running[self._start(each, me)] = each
            except Invalid as error:
                self._end(each, Failed(Error("Invalid", str(error)), final=True))
            except Exception as error:  # noqa: BLE001  a row that was written by hand, or a bug
                self._end(each, Failed(described(error), final=True))

    def _start(self, claimed: Claimed, me: str) -> Running:
        task = self._registry.get(claimed.live.task)
        definition = task.limited(claimed.definition) if task.limits else claimed.definition
        context = self._context(claimed, definition, me)
        return self._runner.start(task, context, definition.policies.timeout)

    def _context(self, claimed: Claimed, definition: Definition, me: str) -> Context:
        args: dict[str, Any] = decode(claimed.args)
        if self._registry.is_built_in(claimed.live.task):  # made elsewhere, perhaps, where more is allowed
            builtin.check(claimed.live.task, args, self.permits)
        return Context(claimed.live, definition, args, me, self, self._clock.monotonic)

    # -- settling

    def _on_finished(self, running: Running, outcome: Outcome) -> None:
        if self._progress:
            self._progress.pop((running.execution_id, running.fence), None)
        if self.logs.pages:
            self.logs.ended(running.execution_id)
            self._echo.ended(running.execution_id)
        self._reported_stuck.discard(running)
        self._end(self._running.pop(running), outcome, running.account)

    def _end(self, claimed: Claimed, outcome: Outcome, account: Json | None = None) -> None:
        self._settler.end(claimed, outcome, account)
        if not self.bell.is_set():
            self.bell.set()

    # -- watching over what runs

    async def watch(self) -> None:
        """Obey those who asked for a stop, tell how far things are, and report what does not stop."""
        for running in list(self._running):
            running.context.flush_progress()  # what was told last, should nothing follow for long
            running.end_if_missing()
        await self._save_progress()
        if not self._running:
            return
        held = list(self._running)
        marks = await self.in_store(self._store.queue.marks, [running.execution_id for running in held])
        for running in held:
            mark = marks.get(running.execution_id)
            if mark is None or mark.fence != running.fence:
                if running in self._running:
                    running.cancel(Lost())  # another worker may have it by now: do no more harm
            elif mark.cancel_asked_at is not None:
                running.cancel(Cancelled(mark.cancel_by))
        self._report_stuck()
        await self._report_overlong()

    async def _report_overlong(self) -> None:
        began = ((claimed, running.started) for running, claimed in self._running.items())
        if runs := long_runs(began, asyncio.get_running_loop().time()):
            await self.in_store(self._overlong.look, runs)

    async def _save_progress(self) -> None:
        if not self._progress or not self.lease.trusted:
            return
        told = [self._progress.popitem() for _ in range(len(self._progress))]  # threads add to it meanwhile
        rows = [(execution_id, fence, text) for (execution_id, fence), text in told]
        try:
            await self.in_store(self._store.queue.save_progress, rows)
        except StoreError:
            held = {(running.execution_id, running.fence) for running in self._running}
            for hold, progress in told:
                if hold in held:
                    self._progress.setdefault(hold, progress)
            raise

    def _report_stuck(self) -> None:
        now = asyncio.get_running_loop().time()
        for running, claimed in self._running.items():
            since = running.stopping_since
            if since is None or running in self._reported_stuck:
                continue
            if now - since >= STUCK_AFTER.total_seconds():
                self._reported_stuck.add(running)
                self._telemetry.stuck(claimed.live, timedelta(seconds=now - since))

    # -- the desk of a run (called on the loop and on threads)

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        self._progress[execution_id, fence] = progress

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        if not self.lease.trusted or not self._store.queue.save_checkpoint(execution_id, fence, checkpoint):
            raise LeaseLost(REFUSED)

    def crawl_turn(self, live: Live, turn: Json) -> Json:
        while self.lease.trusted:
            try:
                return self._crawling.answer(live, turn)
            except StoreUnavailable:
                time.sleep(STORE_AGAIN)  # on a thread of the run's own
        raise LeaseLost(REFUSED)

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        self.logs.record(execution_id, level, said)
        return True

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        self.logs.printed(execution_id, stream, text)

    def _written(self, line: Written) -> None:
        self._echo.show(line)
        self.logs.written(line)

    # -- stopping

    def interrupt_willing(self) -> None:
        """Ask those to stop that lose nothing by it: they need no grace."""
        for running in list(self._running):
            if running.task.hands_back:
                running.cancel(Interrupted())

    def interrupt(self) -> None:
        """Ask all that runs to stop; it is handed back, unless it must not begin twice."""
        for running in list(self._running):
            running.cancel(Interrupted(started=not running.task.hands_back))

    async def leave(self) -> None:
        """Settle what has ended, hand back what has not, and close the row, unless a result remains."""
        await self._pool.end_all(PROCESSES_HAVE)  # nobody else may begin what still runs here
        self._settler.offer_left()
        while self._settler.unsettled:
            await self.flush()
        await self.logs.flush()
        worker_id, begun, unsaved = self.lease.worker_id, self._settler.running, self._settler.finished
        if worker_id is None or self.lease.closed:
            return
        leave = self._store.workers.leave
        self._telemetry.changed(await self.in_store(leave, worker_id, self._clock.now(), begun, unsaved))
        if unsaved:
            self._telemetry.stopping(
                "with results that cannot be saved: they will be found lost", results=len(unsaved)
            )

    def close(self) -> None:
        """Let its threads go, each when it is done, and its processes now."""
        self._runner.threads.stop()
        self._pool.close()

    def _modules(self) -> list[str]:
        """List the modules of tasks that run in processes; built-in tasks are imported when needed."""
        own = [name for name in self._registry.names() if not self._registry.is_built_in(name)]
        tasks = [self._registry.get(name) for name in own]
        of_process = {each.function.__module__ for each in tasks if self._runner.runs_in_process(each)}
        return sorted(of_process)
