"""RQ: a SimpleWorker, or a worker that forks for each job, with RQ's scheduler (KIND=fork)."""

import os
from collections.abc import Sequence

import redis
from rq import Queue, SimpleWorker, Worker

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, in_batches, main

KEPT = 60  # seconds for which results are stored


class Rq(Subject):
    def __init__(self) -> None:
        self.connection = redis.Redis.from_url(os.environ["REDIS_URL"])
        self.queue = Queue(connection=self.connection)

    async def one(self, number: int) -> None:
        self.queue.enqueue(mark, number, result_ttl=KEPT)

    async def many(self, numbers: Sequence[int]) -> None:
        for batch in in_batches(numbers):
            self.queue.enqueue_many([Queue.prepare_data(mark, args=(n,), result_ttl=KEPT) for n in batch])

    def work(self) -> None:
        forks = os.environ.get("KIND") == "fork"
        kind = Worker if forks else SimpleWorker
        kind([self.queue], connection=self.connection).work(logging_level="ERROR", with_scheduler=forks)


if __name__ == "__main__":
    main(Rq)
