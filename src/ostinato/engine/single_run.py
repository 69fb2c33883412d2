"""One claimed execution, run to its end: for processes that are started for each run.

It is a worker like any other, with its own lease, renewed from a thread during the run; but it looks for no other work
and then leaves.
"""

import asyncio
from contextlib import suppress
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.config import Settings
from ostinato.core.errors import StoreError
from ostinato.core.model import Chance, Claimed
from ostinato.core.payload import MIB
from ostinato.engine.duties import Retrying
from ostinato.engine.lease import Renewing
from ostinato.engine.threads import StoreThreads
from ostinato.engine.worker import Identity, Worker
from ostinato.isolation.plan import ProcessPlan
from ostinato.store.kernel import Kernel
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.task.open_resources import CLOSE_TIMEOUT
from ostinato.telemetry.reports import Telemetry

WATCH_EVERY: Final = 1.0  # seconds


class SingleRun:
    """The run of one claimed execution on the running loop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        settings: Settings,
    ) -> None:
        self._store, self._clock, self._settings = store, clock, settings
        self._retrying = Retrying(telemetry)
        self._executor = StoreThreads(4)
        processes = ProcessPlan(grace=settings.stop_grace)
        identity = Identity(
            "", "", (), 1, settings.lease, processes, settings.isolation, settings.keep_log_mb * MIB, settings.permits
        )  # fmt: skip
        kernel = Kernel(store, clock, chance)
        self._outgoing = kernel.outgoing(lambda call: self._worker.in_store(call), settings.permits)
        self._worker: Worker = Worker(
            store, registry, clock, chance, telemetry, identity, self._executor, self._outgoing
        )

    async def run(self, claimed: Claimed, worker_id: UUID, sent: float) -> None:
        """Run and settle the execution; `sent` is when the claim was sent, on the monotonic clock."""
        worker = self._worker
        worker.lease.adopt(worker_id, sent)
        loop = asyncio.get_running_loop()

        def give_up(_: Exception) -> None:
            loop.call_soon_threadsafe(worker.abandon)  # the flush meets the same error and raises it

        renewing = Renewing(worker.lease, self._settings.renew, lambda: worker.running, _nothing, give_up)
        duties = [asyncio.create_task(duty()) for duty in (self._watch, self._write_logs)]
        try:
            worker.take_up([claimed])
            while worker.held:
                worker.ended.clear()
                await self._retrying.until_done(worker.flush)
                if worker.held:
                    await worker.ended.wait()
            await self._retrying.until_done(worker.logs.flush)
            if not worker.lease.closed:
                now = self._clock.now()
                await worker.in_store(self._store.workers.leave_quietly, worker_id, now)
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await worker.close_resources()
        finally:
            for each in duties:
                each.cancel()
            renewing.close()
            worker.close()
            await self._outgoing.close()
            self._executor.shutdown()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            if self._worker.lease.closed:
                self._worker.abandon()
            with suppress(StoreError):
                await self._worker.watch()

    async def _write_logs(self) -> None:
        while True:
            await self._worker.logs.wait()
            await self._retrying.until_done(self._worker.logs.flush)


def _nothing() -> None:
    pass
