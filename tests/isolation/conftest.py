"""Fixtures with real processes: each test has its own supervisor. Tests here may be `async def`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from ostinato.clock import SystemClock
from ostinato.core.account import Account
from ostinato.core.builtin import NOTHING_ALLOWED
from ostinato.core.model import Json
from ostinato.core.outcome import Outcome
from ostinato.core.policy import Isolation, Policies
from ostinato.engine.runner import Runner
from ostinato.engine.running import Running
from ostinato.engine.threads import Threads
from ostinato.isolation.plan import ProcessPlan, WrittenLine
from ostinato.isolation.pool import Pool
from ostinato.task import CallReply, Context, Task
from tests.build import a_definition, a_live
from tests.waiting import PATIENCE, until

SHORT = timedelta(seconds=0.3)
LONG = timedelta(seconds=PATIENCE)
MODULES = ("tests.isolation.work",)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Ended(NamedTuple):
    outcome: Outcome
    account: Account


class Bench:
    """A runner with processes, which records the messages of its runs."""

    permits = NOTHING_ALLOWED

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: dict[Running, Ended] = {}
        self.lines: list[WrittenLine] = []
        self.progress: list[Json] = []
        self.checkpoints: list[Json] = []
        self.refuse: Exception | None = None
        self.pools: list[Pool] = []
        self.threads = Threads(4)
        self.use()

    def use(self, grace: timedelta = SHORT, modules: Sequence[str] = MODULES, **plan: Any) -> None:
        """Use a new pool from now on."""
        self.pool = Pool(ProcessPlan(**{"size": 2} | plan, grace=grace), lambda: modules, self.lines.append)
        self.pools.append(self.pool)
        self.runner = Runner(self.threads, SystemClock(), self._on_finished, self.pool)

    def start(
        self,
        function: Callable[..., Any],
        timeout: timedelta | None = None,
        policies: Policies | None = None,
        **args: Any,
    ) -> Running:
        definition = replace(a_definition(), policies=policies or Policies())
        context = Context(a_live(running=True), definition, args, "me", self)
        return self.runner.start(Task(function, isolation=Isolation.PROCESS), context, timeout)

    async def end(self, running: Running) -> Ended:
        return await until(lambda: self.ended.get(running))

    async def run(self, function: Callable[..., Any], **args: Any) -> Ended:
        return await self.end(self.start(function, **args))

    async def reached(self, name: str = "pid") -> int:
        """Wait until a task has written this file, and return the pid in it."""
        path = self.folder / f"at.{name}"
        await until(path.exists)
        return int(path.read_text())

    @property
    def at(self) -> str:
        return str(self.folder / "at")

    def left(self, name: str) -> str | None:
        path = self.folder / f"at.{name}"
        return path.read_text() if path.exists() else None

    def printed(self, stream: str = "stdout") -> list[str]:
        return [line.text for line in self.lines if line.stream == stream]

    # -- the host of a context

    def report_progress(self, _id: object, _fence: int, progress: Json) -> None:
        self.progress.append(progress)

    def save_checkpoint(self, _id: object, _fence: int, checkpoint: Json) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.checkpoints.append(checkpoint)

    def call(self, _live: object, name: str, request: Any) -> CallReply:
        if self.refuse is not None:
            raise self.refuse
        return CallReply({"name": name, "request": request}, '{"seen":7}')

    def _on_finished(self, running: Running, outcome: Outcome) -> None:
        assert running not in self.ended
        self.ended[running] = Ended(outcome, Account.from_json(running.account))

    async def close(self) -> None:
        supervisors = [pid for pool in self.pools if (pid := pool.supervisor_pid) is not None]
        everybody = [child for pid in supervisors for child in psutil.Process(pid).children(recursive=True)]
        for pool in self.pools:
            pool.close()
        await until(lambda: not any(alive(pid) for pid in [*supervisors, *(each.pid for each in everybody)]))
        self.threads.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test on a loop, with a Bench that is closed at the end: no process may be left then."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def scene() -> None:
        if "bench" not in given:
            await pyfuncitem.obj(**given)
            return
        bench = given["bench"] = given["bench"]()
        try:
            await pyfuncitem.obj(**given)
        finally:
            await bench.close()

    asyncio.run(scene())
    return True


@pytest.fixture
def bench(tmp_path: Path) -> Callable[[], Bench]:
    return lambda: Bench(tmp_path)
