"""Celery with acks_late and no results: one thread, or two processes (KIND=prefork)."""

import os

from celery import Celery

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

app = Celery("bench", broker=os.environ["REDIS_URL"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=32,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
POOLS = {"threads": ["-P", "threads", "-c", "1"], "prefork": ["-P", "prefork", "-c", "2"]}
ALONE = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


@app.task(name="noop")
def noop(number: int) -> None:
    mark(number)


class InCelery(Subject):
    async def one(self, number: int) -> None:
        noop.apply_async((number,))

    def work(self) -> None:
        app.worker_main(["worker", *POOLS[os.environ.get("KIND", "threads")], *ALONE, "-l", "ERROR"])


if __name__ == "__main__":
    main(InCelery)
