"""Workers in the middle of something, and the tasks they run."""

from __future__ import annotations

import asyncio
from uuid import UUID

from ostinato.core.errors import StoreUnavailable
from ostinato.engine.dispatcher import Step
from ostinato.engine.worker import Worker
from ostinato.task import Context, Task
from tests.engine.conftest import Rig
from tests.waiting import until

NOTHING = Step(0, None)


class Gate:
    """A task that runs until it is let go, and what it saw."""

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
    """A worker in the middle of a run, which waits at its gate."""
    gate = Gate(rig)
    (job_id,) = rig.enqueue()
    worker = await rig.worker()
    await worker.step()
    await until(lambda: gate.started)
    return gate, job_id, worker


async def unsettled(rig: Rig, count: int = 1) -> tuple[list[UUID], Worker]:
    """A worker whose runs have ended, which the store does not know yet."""
    rig.registry.add(Task(done, "work"))
    jobs = rig.enqueue(count)
    worker = await rig.worker()
    await worker.step()
    await until(lambda: not worker.running)
    return jobs, worker


async def idle(worker: Worker) -> None:
    """Everything that runs has ended, and is settled."""
    await until(lambda: not worker.running)
    await worker.flush()


async def done() -> str:
    return "done"


def away(*_: object) -> None:
    """A store that does not answer."""
    raise StoreUnavailable("away")
