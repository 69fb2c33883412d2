"""The worker: it claims executions that it can start now, runs them, answers their calls, and settles them.

Everything here runs on one event loop; the store is reached only through `in_store`, on a thread. The settler
(settler.py) holds claimed executions until they are settled.
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
from ostinato.core.builtin import Permits
from ostinato.core.errors import Invalid, LeaseLost, StoreError, StoreUnavailable
from ostinato.core.model import Chance, Claimed, Definition, FencedId, Json, Live
from ostinato.core.outcome import Cancelled, Error, Failed, Interrupted, Lost, Outcome
from ostinato.core.payload import decode
from ostinato.core.policy import Isolation
from ostinato.engine.claim_timing import ClaimOrder
from ostinato.engine.dispatcher import StepReport
from ostinato.engine.lease import Lease
from ostinato.engine.logbook import Echo, LogBook, LongRuns, long_runs
from ostinato.engine.runner import Runner
from ostinato.engine.running import Running
from ostinato.engine.settler import MOST_AT_ONCE, Settler
from ostinato.engine.threads import Threads
from ostinato.isolation.plan import ProcessPlan, WrittenLine
from ostinato.isolation.pool import Pool
from ostinato.outgoing import Outgoing
from ostinato.store.claiming import Claim
from ostinato.store.kernel import Kernel, TaskCall
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker
from ostinato.task import CallReply, Context, Registry
from ostinato.task.open_resources import CLOSE_TIMEOUT, Resources
from ostinato.task.parameters import describe
from ostinato.task.signals import described
from ostinato.telemetry.reports import Telemetry

# -- Calls of running tasks to the features of their worker

AGAIN: Final = 0.5  # seconds until a call is repeated while the database is unavailable
REFUSED: Final = "This run no longer holds its execution: nothing was saved."


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """The calls that the runs of one worker make."""

    kernel: Kernel
    lease: Lease

    def answer(self, live: Live, name: str, request: Any) -> CallReply:
        """Answer a call on the thread of its run; raise LeaseLost if the run may no longer write."""
        if _is_on_a_loop():
            raise Invalid(f"The call {name} waits for the database: make it on a thread.")
        call: TaskCall = self.kernel.store.database.features.call(name)
        while self.lease.trusted:
            try:
                reply = call.answer(self.kernel, live, request)
            except StoreUnavailable:
                if not call.repeats:
                    raise
                time.sleep(AGAIN)
            else:
                if reply is None:
                    break
                return reply
        raise LeaseLost(REFUSED)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- The worker: it claims executions that it can start now, runs them, and settles them

P = ParamSpec("P")
R = TypeVar("R")

STUCK_AFTER: Final = timedelta(seconds=5)
# A run that waited longer is a backlog: a fast start gains nothing there, and late settles cost a tenth to a fifth of
# the throughput.
BURST: Final = timedelta(seconds=0.5)
PROCESSES_HAVE: Final = 1.0  # seconds to end after SIGKILL
KEEP_SHOWN: Final = 10 * 1024 * 1024  # bytes of a run's output on the worker's own log, if none is stored
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
    functions: Isolation = Isolation.THREAD  # the default of `def` tasks
    keep_log: int = 10 * 1024 * 1024  # bytes of log per execution
    permits: Permits = Permits()


class Worker:
    """Runs of executions; `step`, `flush` and `watch` are its duties, called by a loop or by a test."""

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
        self.resources = Resources()
        self.lease = Lease(store, clock, identity.lease)
        self._calls = TaskCalls(Kernel(store, clock, chance), self.lease)
        self.wake = asyncio.Event()  # set when there is something to claim, or room for it
        self.cramped = False  # the last claim might have brought more with more room
        self.logs = LogBook(store, clock, self.in_store, identity.keep_log)
        self._running: dict[Running, Claimed] = {}
        self._settler = Settler(store, clock, chance, telemetry, self.logs, self.in_store, self._running)
        self.flush, self.ended = self._settler.flush, self._settler.ended
        self._echo = Echo() if identity.keep_log else Echo(None)
        processes = replace(identity.processes, size=identity.concurrency, keep_output=identity.keep_log or KEEP_SHOWN)
        self._pool = Pool(processes, self._modules, self._written)
        self._runner = Runner(
            Threads(identity.concurrency), clock, self._on_finished, self._pool, identity.functions, registry.tracer
        )
        self._full = False  # the last claim filled all room, with executions that had just come due
        self._progress: dict[FencedId, Json] = {}
        self._long_runs = LongRuns(store, clock, chance, telemetry)
        self._reported_stuck: set[Running] = set()
        self.doubtful = False  # a claim got no answer: the database may hold executions that do not run
        self._described = False  # the database has the schemas of its tasks

    async def in_store(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the store on a thread. Only this method leads from the loop to the store."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: call(*args, **kwargs))

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def unsettled(self) -> int:
        """The number of results to offer to the store now."""
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
        """True if due executions should start before results are settled: for a moment, up to a number."""
        return self._full and self._settler.may_wait

    async def is_idle(self) -> bool:
        """Return True if it runs nothing, has settled all results, and could start nothing now."""
        if self.lease.worker_id is None or self._running or self._settler.held:
            return False
        tasks, queues, now = self._registry.names(), self._identity.queues, self._clock.now()
        has_work = await self.in_store(self._store.queue.has_work, self.lease.worker_id, tasks, queues, now)
        return not has_work or self.lease.drain

    # -- the lease

    async def join(self) -> None:
        """Register the worker; after a lost lease, register again under a new id. By then a newer worker may describe
        its tasks."""
        now, identity = self._clock.now(), self._identity
        worker = NewWorker(
            self._chance.id(now), identity.app, socket.gethostname(), os.getpid(), identity.version,
            self._registry.names(), identity.queues, identity.concurrency,
            () if self._described else describe(self._registry),
        )  # fmt: skip
        await self.in_store(self.lease.join, worker)
        self._described = True

    def abandon(self) -> None:
        """Cancel all runs, since the worker's row is closed: other workers have them now."""
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
        """Claim and start executions, up to the free room."""
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
        """Return a claim that any thread may make, if there is room. A worker in doubt claims by `step` instead."""
        room, worker_id = min(self.free, MOST_AT_ONCE), self.lease.worker_id
        if room <= 0 or worker_id is None or self.lease.drain or not self.lease.trusted:
            return None
        tasks, queues, claim = self._registry.names(), self._identity.queues, self._store.queue.claim

        def make() -> Claim:
            if self.lease.drain or not self.lease.trusted:  # may have changed by now
                return Claim()
            return claim(worker_id, tasks, queues, self._clock.now, room, self.lease.at_least)

        return ClaimOrder(worker_id, room, make)

    def doubt(self) -> None:
        """Note that a claim failed: it may be committed, and its executions must be released."""
        self.doubtful, self._full = True, False

    def took(self, claim: Claim, order: ClaimOrder) -> StepReport:
        """Start what a claim brought."""
        for task, count in (claim.parked or {}).items():
            self._telemetry.unknown_task(task, count, self._store.database.features.install(task))
        self.take_up(claim.claimed)
        full = len(claim.claimed) == order.room
        self._full = full and self._clock.now() - claim.claimed[0].live.run_at < BURST
        self.cramped = full
        if full and self.free > 0:
            self.wake.set()
        return StepReport(len(claim.claimed) + sum((claim.parked or {}).values()), claim.next_at)

    async def _resolve_doubt(self, worker_id: UUID) -> None:
        hand_back = self._store.workers.hand_back_unknown
        changes = await self.in_store(hand_back, worker_id, self._settler.held, self._clock.now())
        self._telemetry.changed(changes)
        self.doubtful = False

    def take_up(self, claimed: Sequence[Claimed]) -> None:
        """Start claimed executions. One that cannot start fails, and the others go on."""
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
            except Exception as error:  # noqa: BLE001  a row written by hand, or a bug
                self._end(each, Failed(described(error), final=True))

    def _start(self, claimed: Claimed, me: str) -> Running:
        task = self._registry.get(claimed.live.task)
        if self._registry.arounds.registered:
            task = self._registry.wrapped(task)
        definition = task.limited(claimed.definition) if task.limits else claimed.definition
        context = self._context(claimed, definition, me)
        return self._runner.start(task, context, definition.policies.timeout)

    def _context(self, claimed: Claimed, definition: Definition, me: str) -> Context:
        args: dict[str, Any] = decode(claimed.args)
        if self._registry.is_built_in(claimed.live.task):  # perhaps made elsewhere, with more rights
            self._store.database.features.check(claimed.live.task, args, self.permits)
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
        if not self.wake.is_set():
            self.wake.set()

    # -- watching runs

    async def watch(self) -> None:
        """Apply cancel requests, save progress, and report runs that do not stop."""
        for running in list(self._running):
            running.context.flush_progress()  # the last report, in case none follows for long
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
        await self._report_long_runs()

    async def _report_long_runs(self) -> None:
        began = ((claimed, running.started) for running, claimed in self._running.items())
        if runs := long_runs(began, asyncio.get_running_loop().time()):
            await self.in_store(self._long_runs.look, runs)

    async def _save_progress(self) -> None:
        if not self._progress or not self.lease.trusted:
            return
        reports = [self._progress.popitem() for _ in range(len(self._progress))]  # threads add meanwhile
        rows = [(execution_id, fence, text) for (execution_id, fence), text in reports]
        try:
            await self.in_store(self._store.queue.save_progress, rows)
        except StoreError:
            held = {(running.execution_id, running.fence) for running in self._running}
            for hold, progress in reports:
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

    # -- calls of a run's Context (on the loop and on threads)

    def report_progress(self, execution_id: UUID, fence: int, progress: Json) -> None:
        self._progress[execution_id, fence] = progress

    def save_checkpoint(self, execution_id: UUID, fence: int, checkpoint: Json) -> None:
        if not self.lease.trusted or not self._store.queue.save_checkpoint(execution_id, fence, checkpoint):
            raise LeaseLost(REFUSED)

    def call(self, live: Live, name: str, request: Any) -> CallReply:
        return self._calls.answer(live, name, request)

    def keep_record(self, execution_id: UUID, level: int, said: object) -> bool:
        self.logs.record(execution_id, level, said)
        return True

    def keep_printed(self, execution_id: UUID, stream: str, text: str) -> None:
        self.logs.printed(execution_id, stream, text)

    def _written(self, line: WrittenLine) -> None:
        self._echo.show(line)
        self.logs.written(line)

    # -- stopping

    def interrupt_willing(self) -> None:
        """Stop the runs that lose nothing by it: they need no grace."""
        for running in list(self._running):
            if running.task.hands_back:
                running.cancel(Interrupted())

    def interrupt(self) -> None:
        """Stop all runs; each is released, unless it must not begin twice."""
        for running in list(self._running):
            running.cancel(Interrupted(started=not running.task.hands_back))

    async def leave(self) -> None:
        """Settle ended runs, release the others, and close the row, unless a result remains."""
        await self._pool.end_all(PROCESSES_HAVE)  # before another worker may start them
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
                "with results that cannot be saved: they will be settled as lost", results=len(unsaved)
            )

    async def close_resources(self) -> None:
        """Close what the tasks have opened, here and in the processes of runs."""
        await asyncio.gather(self.resources.aclose(self._executor), self._pool.dismiss(CLOSE_TIMEOUT))

    def close(self) -> None:
        """End the threads, each after its call, and the processes at once."""
        self._runner.threads.stop()
        self._pool.close()

    def _modules(self) -> list[str]:
        """List the modules of tasks that run in processes, and of what runs around tasks. Built-in tasks are imported
        when needed."""
        own = [name for name in self._registry.names() if not self._registry.is_built_in(name)]
        tasks = [self._registry.get(name) for name in own]
        of_process = {each.function.__module__ for each in tasks if self._runner.runs_in_process(each)}
        return sorted(of_process | self._registry.arounds.modules)
