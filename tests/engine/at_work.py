"""Workers during runs, and the tasks they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from ostinato.config import Settings
from ostinato.core.errors import StoreUnavailable
from ostinato.engine.dispatcher import StepReport
from ostinato.engine.engine import Engine
from ostinato.engine.worker import Worker
from ostinato.task import Context, Task
from tests.engine.conftest import Rig
from tests.waiting import PATIENCE, until

NOTHING = StepReport(0, None)


class Gate:
    """A task that runs until the gate opens, and notes what it saw."""

    def __init__(self, rig: Rig, name: str = "work") -> None:
        self.opened = asyncio.Event()
        self.started: list[Context] = []
        self.ended: list[str] = []

        async def work(ctx: Context) -> str:
            self.started.append(ctx)
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("returned")
            return "done"

        rig.registry.add(Task(work, name))


async def at_a_gate(rig: Rig) -> tuple[Gate, UUID, Worker]:
    """A worker during a run that waits at its gate."""
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    return gate, job_id, worker


async def unsettled(rig: Rig, count: int = 1) -> tuple[list[UUID], Worker]:
    """A worker with ended runs that the store does not know yet."""
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(count)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    return jobs, worker


async def idle(worker: Worker) -> None:
    """Wait until all runs have ended and are settled."""
    await until(lambda: not worker.running)
    await worker.flush()


async def done() -> str:
    return "done"


def away(*_: object) -> None:
    """Stand in for a store that does not answer."""
    raise StoreUnavailable("away")


# -- a real engine


def an_engine(rig: Rig, **settings: object) -> Engine:
    given = {"poll_interval": "10m", "shutdown_grace": "10s", "sweep": "50ms"} | settings
    return Engine(rig.store, rig.registry, rig.clock, rig.chance, rig.telemetry, Settings.load(given, {}))


@asynccontextmanager
async def running(rig: Rig, **settings: object) -> AsyncIterator[Engine]:
    engine = an_engine(rig, **settings)
    work = asyncio.create_task(engine.run())
    yield engine
    engine.stop()
    await asyncio.wait_for(work, PATIENCE)


async def has_offered_its_claim(engine: Engine) -> None:
    """Wait until the worker has offered its claim to the listening thread."""
    await until(lambda: engine._hand_off._offered)


def handed_back(rig: Rig) -> list[Any]:
    """List the jobs that are queued again without a retry used."""
    return [
        live.job_id
        for live in rig.live()
        if (live.worker_id, live.attempt, live.failures, live.losses, live.waits_for) == (None, 0, 0, 0, None)
    ]


async def ended(rig: Rig, job_id: Any, *results: str) -> None:
    await until(lambda: rig.results(job_id) == list(results))
