"""PgQueuer on asyncpg, with its best batches: 1000."""

import asyncio
import math
import os
import time
from collections.abc import Sequence
from typing import Any

import asyncpg
import pgqueuer

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, in_batches, main

URL = os.environ["DATABASE_URL"]


class PgQueuer(Subject):
    async def open(self) -> None:
        self.driver = pgqueuer.AsyncpgDriver(await asyncpg.connect(URL))
        self.queries = pgqueuer.Queries(self.driver)

    async def setup(self) -> None:
        await self.open()
        await self.queries.install()

    async def one(self, number: int) -> None:
        await self.queries.enqueue("noop", str(number).encode(), 0)

    async def many(self, numbers: Sequence[int]) -> None:
        for batch in in_batches(numbers):
            payloads = [str(number).encode() for number in batch]
            await self.queries.enqueue(["noop"] * len(batch), payloads, [0] * len(batch))

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        await self.open()
        worker = pgqueuer.PgQueuer(self.driver)

        @worker.entrypoint("noop")
        async def noop(job: Any) -> None:
            mark(int(job.payload))

        await worker.run(batch_size=1000)

    def recur(self, count: int, seconds: float) -> dict[str, Any]:
        return asyncio.run(self._recur(count, seconds))

    async def _recur(self, count: int, seconds: float) -> dict[str, Any]:
        await self.setup()
        worker = pgqueuer.PgQueuer(self.driver)
        for number in range(count):
            worker.schedule(f"tick{number}", "* * * * * *")(_ticker())
        began = math.ceil(time.time() + 3)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(began + seconds - time.time())
        running.cancel()
        return {"began": began}


def _ticker() -> Any:
    async def tick(schedule: Any) -> None:
        mark(round((time.time() % 1) * 1e6))  # a lower bound of the lateness: the part of a second

    return tick


if __name__ == "__main__":
    main(PgQueuer)
