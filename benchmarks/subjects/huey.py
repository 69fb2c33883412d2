"""Huey on SQLite with its default synchronous=FULL and one thread (its best). It deletes a job when it takes one."""

import os

from huey import SqliteHuey
from huey.consumer import Consumer

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, main

queue = SqliteHuey("bench", filename=os.environ["DATABASE_URL"].removeprefix("sqlite:///"))


@queue.task(name="noop")
def noop(number: int) -> None:
    mark(number)


class Huey(Subject):
    async def one(self, number: int) -> None:
        noop(number)

    def work(self) -> None:
        Consumer(queue, workers=1, worker_type="thread", periodic=False).run()


if __name__ == "__main__":
    main(Huey)
