"""RQ: a SimpleWorker, or a fork per job (KIND=fork)."""

import os
from collections.abc import Sequence

import redis
from rq import Queue, SimpleWorker, Worker

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, in_batches, main

KEPT = 60  # seconds a result stays


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
        kind = Worker if os.environ.get("KIND") == "fork" else SimpleWorker
        kind([self.queue], connection=self.connection).work(logging_level="ERROR")


if __name__ == "__main__":
    main(Rq)
