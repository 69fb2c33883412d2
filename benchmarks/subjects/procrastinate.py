"""Procrastinate, with 100 jobs at once."""

import asyncio
import math
import os
import time
from collections.abc import Sequence
from typing import Any

import procrastinate

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, in_batches, main

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))


@app.task(name="noop")
async def noop(number: int) -> None:
    mark(number)


@app.task(name="tick")
async def tick(timestamp: int, number: int) -> None:
    mark(round((time.time() - timestamp) * 1e6))


class Procrastinate(Subject):
    async def open(self) -> None:
        await app.open_async()

    async def setup(self) -> None:
        await self.open()
        await app.schema_manager.apply_schema_async()

    async def one(self, number: int) -> None:
        await noop.defer_async(number=number)

    async def many(self, numbers: Sequence[int]) -> None:
        for batch in in_batches(numbers):
            await noop.batch_defer_async(*({"number": number} for number in batch))

    def work(self) -> None:
        app.run_worker(concurrency=100, listen_notify=True, delete_jobs="never")

    def recur(self, count: int, seconds: float) -> dict[str, Any]:
        for number in range(count):
            app.periodic_registry.register_task(
                task=tick,
                cron="* * * * * *",
                periodic_id=str(number),
                configure_kwargs={"task_kwargs": {"number": number}},
            )
        return asyncio.run(self._recur(seconds))

    async def _recur(self, seconds: float) -> dict[str, Any]:
        await self.setup()
        began = math.ceil(time.time() + 2)
        running = asyncio.create_task(app.run_worker_async(concurrency=20, install_signal_handlers=False))
        await asyncio.sleep(began + seconds - time.time())
        running.cancel()
        return {"began": began}


if __name__ == "__main__":
    main(Procrastinate)
