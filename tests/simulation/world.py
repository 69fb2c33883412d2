"""One seed: a database, a clock, some processes and operators, and all that can go wrong between them.

Everything runs in one thread, one action after the other, so that a seed is always the same story. What people were
told (acknowledged settles, commands, claims that were committed) is written down as it happens and held against the
rows: in ledger.py at once, where an answer itself is wrong; in guarantees.py at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from ostinato.chance import RandomChance
from ostinato.clock import ManualClock
from ostinato.config import Settings
from ostinato.core.errors import LeaseLost, StoreError
from ostinato.store.database import Database
from ostinato.store.store import Store
from ostinato.task import Context, Defer, GiveUp, Registry, RetryLater, Task
from ostinato.telemetry.reports import Hooks, Telemetry
from ostinato.testing import Process
from ostinato.testing.process import ProcessState
from tests.simulation.dice import BEGINNINGS, PACES, SECOND, Dice
from tests.simulation.ledger import Ledger, Violation
from tests.simulation.misfortune import Crash, Fault, ShakyDatabase
from tests.simulation.operators import Operators

LEASE, SWEEP, RENEW = 30 * SECOND, 7 * SECOND, 10 * SECOND
MOST_PROCESSES = 4
ACTIONS = 90
WAKE_UPS = 40  # until it is all over
NO_MORE = 1000  # rounds at one instant

ACTIONS_AND_WEIGHTS = {
    "pass_time": 30, "work": 30, "one_duty": 14, "command": 12, "create": 5, "crash": 2, "hire": 3, "freeze": 2,
    "thaw": 3, "retire": 1, "vigil": 4, "jump_ahead": 1, "jump_back": 1, "store_away": 1,
    "queue_command": 2, "execution_command": 3,
}  # fmt: skip
ENDS = {
    "complete": 10, "fail": 6, "retry_later": 1, "give_up": 1, "defer": 2, "hang": 1, "stubborn": 1, "checkpoint": 1,
}  # fmt: skip


class World:
    """Everything there is in one seed."""

    def __init__(self, seed: int, database: Database, *, fast_path: bool = True, misfortune: bool = True) -> None:
        self.seed, self.inner, self.fast_path, self.misfortune = seed, database, fast_path, misfortune
        self.dice = Dice(seed)
        self.begun = self.dice.one(*BEGINNINGS)
        self.clock = ManualClock(self.begun)
        self.high_water = self.begun  # the latest that the wall clock ever showed before it was set back
        self.set_back = False
        self.pace = self.dice.one(*PACES)
        self.frugal = self.dice.maybe(0.12)  # retention takes nearly everything away
        self.rough = self.dice.one(0.0, 0.01, 0.04)  # how many transactions meet a fault
        self.crashes = self.dice.maybe(0.7)
        self.may_set_back = self.dice.maybe(0.3)
        self.chance = RandomChance(seed)
        keep = {"keep_days": 0, "keep_executions": 3} if self.frugal else {"keep_days": 36_500}
        self.settings = Settings(
            lease=LEASE, renew=RENEW, sweep=SWEEP, run_log=False, concurrency=self.dice.one(1, 2, 5), **keep
        )
        self.telemetry = Telemetry(self.settings, Hooks())
        self.calm = False
        self.away = 0
        self.trace: list[str] = []
        self.ledger = Ledger(self.clock, self.tell)
        self.processes: list[Process] = []
        self.gone: list[Process] = []
        self.hired = 0
        self.store = Store(database, self.chance)  # the witness: nothing ever goes wrong here
        self.operators = Operators(
            self, Store(self._shaky("operator", crashes=False), self.chance, fast_path=fast_path)
        )
        self._deeds = {name: self._deed(name) for name in ACTIONS_AND_WEIGHTS}

    def _deed(self, name: str) -> Callable[[], None]:
        return getattr(self.operators, name, None) or getattr(self, f"_{name}")

    # -- the story

    def run(self) -> None:
        """Let it happen."""
        self._hire()
        for _ in range(3):
            self.operators.create()
        for _ in range(ACTIONS):
            self._deeds[self.dice.weighted(ACTIONS_AND_WEIGHTS)]()

    def calm_down(self) -> None:
        """No more misfortune: everybody works, and time passes until all that is due is done."""
        self.calm, self.away = True, 0
        self.tell("-- calm")
        for process in list(self.processes):
            if process.state is ProcessState.PAUSED:
                self._attempt(process, "thaws", process.wake)
        service = self.operators.service
        for queue in service.queues():
            service.resume_queue(queue.name)
            service.bound_queue(queue.name, None)
        self.ledger.paused_queues.clear()
        self._hire(everything=True)
        self._watch_over(LEASE + 4 * SWEEP)
        for process in self._working()[1:-1]:
            self._retire(process)
        for _ in range(WAKE_UPS):
            self.clock.advance(self._until_something_happens())
            for process in self._working():
                self._attempt(process, "renews", process.renew, quiet=True)
            self._everybody()

    # -- time

    def _pass_time(self) -> None:
        step = self.dice.one(*self.pace.steps)
        if self.dice.maybe(0.3):
            step *= self.dice.random.random()
        self._let_pass(step)
        for process in self._working():
            if self.dice.maybe(0.9):
                self._attempt(process, "renews", process.renew)

    def _let_pass(self, step: timedelta) -> None:
        self.clock.advance(step)
        self.tell(f"{step} pass")

    def _vigil(self) -> None:
        """Long enough, and watched closely enough, to find out who is dead."""
        self.tell("-- vigil")
        self._watch_over(LEASE + 2 * SWEEP)

    def _watch_over(self, span: timedelta) -> None:
        for _ in range(span // SWEEP + 1):
            self.clock.advance(SWEEP)
            for process in self._working():
                self._attempt(process, "renews", process.renew)
                self._attempt(process, "sweeps", process.sweeper.step)
                self._attempt(process, "audits", process.auditor.step, quiet=True)
            self._everybody()

    def _jump_ahead(self) -> None:
        by = self.dice.one(2, 20, 200) * self.dice.one(*self.pace.steps)
        self.clock.set(self.clock.now() + by)
        self.tell(f"the clock is set ahead by {by}")

    def _jump_back(self) -> None:
        if not self.may_set_back:
            return
        by = self.dice.one(1, 2, 20) * self.dice.one(*self.pace.steps)
        self.high_water, self.set_back = max(self.high_water, self.clock.now()), True
        self.ledger.clock_was_wrong = True
        self.clock.set(self.clock.now() - by)
        self.tell(f"the clock is set back by {by}")

    # -- processes

    def _hire(self, everything: bool = False) -> None:
        if len(self.processes) >= MOST_PROCESSES and not everything:
            return
        self.hired += 1
        name = f"w{self.hired}"
        store = Store(self._shaky(name), self.chance, fast_path=self.fast_path)
        self.ledger.witness(store)
        parts = SimpleNamespace(
            store=store,
            clock=self.clock,
            chance=self.chance,
            settings=self.settings,
            telemetry=self.telemetry,
        )
        process = Process(name, parts, self._tasks(everything or self.dice.maybe(0.6)))
        self.processes.append(process)
        while self._attempt(process, "starts", process.start) and process in self.processes:
            pass

    def _tasks(self, all_of_them: bool) -> Registry:
        registry = Registry()
        known = ("work", "rare") if all_of_them else ("work",)
        for name in known if self.misfortune else ("work", "rare", "nobody"):
            registry.add(Task(self._task, name))
        return registry

    def _working(self) -> list[Process]:
        return [process for process in self.processes if process.working]

    def somebody(self) -> Process | None:
        working = self._working()
        return self.dice.one(*working) if working else None

    def _work(self) -> None:
        """Some process does all its duties, or everybody does."""
        if self.dice.maybe(0.3):
            return self._everybody()
        process = self.somebody()
        if process is not None:
            self._attempt(process, "works", process.turn)
        return None

    def _everybody(self) -> None:
        for _ in range(NO_MORE):
            moved = 0
            for process in self._working():
                done = self._attempt(process, "works", process.turn, quiet=True)
                moved += done if isinstance(done, int) and self.calm else 0
            if not moved:
                return
        raise Violation(f"there is always something to do at {self.clock.now()}")

    def _one_duty(self) -> None:
        process = self.somebody()
        if process is None:
            return
        worker = process.worker
        duties: dict[str, Callable[[], Any]] = {
            "dispatches": process.dispatcher.step,
            "claims": lambda: process.do(worker.step),
            "flushes": lambda: process.do(worker.flush),
            "watches": lambda: process.do(worker.watch),
            "sweeps": process.sweeper.step,
            "tidies": process.sweeper.tidy,
        }
        name = self.dice.one(*duties)
        self._attempt(process, name, duties[name])

    def _attempt(self, process: Process, what: str, duty: Callable[[], Any], quiet: bool = False) -> Any:
        """A process does something: a store that is away is tried again another time, a crash is the end."""
        try:
            done = duty()
        except Crash:
            self._die(process, f"crashes while it {what}")
            return None
        except StoreError as error:
            self.tell(f"{process.name} {what}: {error}")
            return error
        if not quiet or done:
            self.tell(f"{process.name} {what}{_brief(done)}")
        return None if what == "starts" else done

    def _crash(self) -> None:
        process = self.somebody()
        if process is not None and self.crashes:
            self._die(process, f"crashes with {process.running} running")

    def _die(self, process: Process, how: str) -> None:
        self.tell(f"{process.name} {how}")
        process.state = ProcessState.CRASHED
        self.processes.remove(process)
        self.gone.append(process)

    def _retire(self, process: Process | None = None) -> None:
        """Somebody is told to stop, and hands back what it runs; if the store is away, it goes all the same."""
        process = process or self.somebody()
        if process is None:
            return
        gone = process.id
        failed = isinstance(self._attempt(process, "stops in order", process.stop), StoreError)
        if process in self.processes:
            self.processes.remove(process)
            self.gone.append(process)
            left = [live for live in self.store.history.live(1000) if live.worker_id and live.worker_id == gone]
            if left and not failed:
                raise Violation(f"{process.name} has stopped, and still holds {left[0]}")

    def _freeze(self) -> None:
        process = self.somebody()
        if process is not None:
            process.state = ProcessState.PAUSED
            self.tell(f"{process.name} freezes with {process.running} running")

    def _thaw(self) -> None:
        frozen = [process for process in self.processes if process.state is ProcessState.PAUSED]
        if frozen:
            process = self.dice.one(*frozen)
            self._attempt(process, "thaws", process.wake)
            if self.dice.maybe(0.5) and process in self.processes:  # the result is faster than the renewal
                self._attempt(process, "flushes", lambda: process.do(process.worker.flush))

    def _store_away(self) -> None:
        self.away = self.dice.one(5, 20)
        self.tell(f"the store is away for {self.away} calls")

    # -- misfortune

    def _shaky(self, name: str, crashes: bool = True) -> Any:
        return ShakyDatabase(
            self.inner,
            lambda writes: self._fault(name, writes, crashes),
            lambda claimed: self.ledger.committed(name, claimed),
        )

    def _fault(self, name: str, writes: bool, crashes: bool) -> Fault:
        if self.calm or not self.misfortune:
            return Fault.NONE
        if self.away:
            self.away -= 1
            return Fault.AWAY
        if not writes or not self.dice.maybe(self.rough):
            return Fault.NONE
        faults = [Fault.AWAY, Fault.ROLLED_BACK, Fault.ANSWER_LOST, Fault.ANSWER_LOST]
        if crashes and self.crashes:
            faults += [Fault.CRASH_BEFORE, Fault.CRASH_AFTER]
        fault = self.dice.one(*faults)
        self.tell(f"{name}: {fault.value}")
        return fault

    # -- what the tasks do

    async def _task(self, ctx: Context, n: int) -> int:
        end = "complete" if self.calm else self.dice.weighted(ENDS)
        takes = SECOND * 0 if self.calm else self.dice.one(0, 0, 0.5, 1, 3) * self.dice.one(*self.pace.steps)
        self.tell(f"  {ctx.execution_key[-40:]} begins, will {end} after {takes}")
        try:
            await asyncio.sleep(takes.total_seconds())  # simulated
            return await self._come_to(ctx, end)
        except asyncio.CancelledError:
            if end != "stubborn":
                raise
            await asyncio.sleep(3)  # simulated
            return 7

    async def _come_to(self, ctx: Context, end: str) -> int:
        match end:
            case "fail":
                raise ValueError("boom")
            case "retry_later":
                raise RetryLater(self.dice.one(*self.pace.steps))
            case "give_up":
                raise GiveUp("no use")
            case "defer":
                raise Defer(self.dice.one(*self.pace.steps))
            case "hang":
                await asyncio.Event().wait()
            case "checkpoint":
                ctx.progress(1, of=2)
                try:
                    ctx.save_checkpoint({"at": ctx.attempt})
                except LeaseLost:
                    self.tell("  its checkpoint is refused")
        return ctx.attempt

    # -- within

    def _until_something_happens(self) -> timedelta:
        now = self.clock.now()
        times = [at - now for process in self._working() for at in process.wake_at]
        times += [process.until_timer for process in self._working() if process.until_timer is not None]
        times = [time for time in times if time > timedelta(0)]
        return min([*times, LEASE])

    def tell(self, line: str) -> None:
        self.trace.append(f"{self.clock.now():%m-%d %H:%M:%S.%f}  {line}")

    def close(self) -> None:
        for process in [*self.processes, *self.gone]:
            process.close()


def _brief(done: Any) -> str:
    if isinstance(done, list):
        return f": {len(done)} changes"
    return "" if done is None else f": {done}"
