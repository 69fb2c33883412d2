"""DBOS: a workflow without steps, from a queue that is polled every 10 ms."""

import os
import time
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

URL = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://")
QUEUE, POLL = "bench", 0.01


class InDbos(Subject):
    def _launch(self) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": URL,
                "log_level": "ERROR",
                "application_version": "1",
                "run_admin_server": False,
            }  # type: ignore[typeddict-unknown-key]
        )

        @DBOS.workflow(name="noop")
        def noop(number: int) -> None:
            mark(number)

        DBOS.launch()

    async def setup(self) -> None:
        self._launch()
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLL)

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=URL)

    async def one(self, number: int) -> None:
        options: Any = {"workflow_name": "noop", "queue_name": QUEUE, "app_version": "1"}
        self.client.enqueue(options, number)

    def work(self) -> None:
        self._launch()
        time.sleep(10**6)


if __name__ == "__main__":
    main(InDbos)
