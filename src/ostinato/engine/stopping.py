"""The stop of an engine: a grace for what runs, then its results, then the worker's row."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ostinato.engine.untiring import Untiring
from ostinato.engine.worker import Worker
from ostinato.telemetry import Telemetry

CANCEL_GRACE: Final = 2.0  # seconds that cancelled tasks have to end before a stop goes on without them
LEAST_GOODBYE: Final = 5.0  # seconds to settle and hand back, though the grace is over
HURRIED_GOODBYE: Final = 1.0  # the same, when asked to stop at once
LOOK_EVERY: Final = 0.05  # seconds


class Stopping:
    """Stops the worker of an engine, once it was asked to."""

    def __init__(self, worker: Worker, untiring: Untiring, telemetry: Telemetry, grace: float) -> None:
        self._worker, self._untiring, self._telemetry, self._grace = worker, untiring, telemetry, grace
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    async def finish(self, why: str, loops: Sequence["asyncio.Task[None]"]) -> None:
        """Claim no more, let what runs end within the grace, then cancel, settle and hand back."""
        until = asyncio.get_running_loop().time() + self._grace
        self._telemetry.stopping(why, running=self._worker.running)
        self._worker.interrupt_willing()
        await self._wait_for_running(until)
        self._worker.interrupt()
        await self._wait_for_running(asyncio.get_running_loop().time() + CANCEL_GRACE)
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._say_goodbye(until)

    async def _wait_for_running(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while self._worker.running and not self.at_once.is_set() and loop.time() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, loop.time() + LOOK_EVERY)):
                    await self.at_once.wait()

    async def _say_goodbye(self, until: float) -> None:
        """Offer results until the grace is over, or until a second signal; a database may come back by then."""
        seconds = max(until - asyncio.get_running_loop().time(), LEAST_GOODBYE)
        leaving = asyncio.create_task(self._untiring.until_done(self._worker.leave))
        hurry = asyncio.create_task(self.at_once.wait())
        await asyncio.wait([leaving, hurry], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        try:
            async with asyncio.timeout(HURRIED_GOODBYE):
                await leaving
        except TimeoutError:
            self._telemetry.stopping("without the database: what ran will be found lost")
