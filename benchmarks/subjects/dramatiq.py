"""Dramatiq with 16 threads."""

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

broker = RedisBroker(url=os.environ["REDIS_URL"])
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop(number: int) -> None:
    mark(number)


class Dramatiq(Subject):
    async def one(self, number: int) -> None:
        noop.send(number)

    def work(self) -> None:
        dramatiq.Worker(broker, worker_threads=16).start()
        time.sleep(10**6)


if __name__ == "__main__":
    main(Dramatiq)
