"""Ostinato as a subject."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.marks import mark
from benchmarks.subjects.verbs import Subject, in_batches, main
from ostinato import Context, Ostinato
from ostinato.config import EngineKind
from ostinato.core.model import Definition
from ostinato.core.payload import encode
from ostinato.core.policy import Policies
from ostinato.core.schedule import Every

app = Ostinato("bench", run_log=False)


@app.task
async def noop(number: int) -> None:
    mark(number)


@app.task
def noop_in_thread(number: int) -> None:
    mark(number)


@app.task
def work(number: int) -> None:
    """Compute for a millisecond."""
    mark(number)
    until = time.thread_time() + 0.001
    while time.thread_time() < until:
        pass


@app.task(isolation="process")
def noop_in_process(number: int) -> None:
    mark(number)


@app.task
async def tick(context: Context) -> None:
    """Leave the lateness in microseconds as the mark."""
    mark(round((time.time() - context.due_at.timestamp()) * 1e6))


KINDS = {"thread": noop_in_thread, "process": noop_in_process, "work": work}


class Ours(Subject):
    task = KINDS.get(os.environ.get("KIND", ""), noop)

    async def setup(self) -> None:
        app.open(upgrade=True)

    async def open(self) -> None:
        app.open()
        _ = app.scheduler  # created now, so that it is not timed

    async def one(self, number: int) -> None:
        self.task.enqueue(number)

    async def many(self, numbers: Sequence[int]) -> None:
        for batch in in_batches(numbers, 5000):
            app.enqueue([self.task.bind(number) for number in batch])

    def work(self) -> None:
        if "WAITS" in os.environ:
            _watch_the_lock(os.environ["WAITS"])
        if app.settings.engine is EngineKind.RQ:
            _work_for_rq()
        app.run()

    def recur(self, count: int, seconds: float) -> dict[str, Any]:
        """Create the schedules for a separate worker process; they end after the measurement."""
        app.open(upgrade=True)
        begin = datetime.fromtimestamp(int(time.time()) + 3 + count // 2000, UTC)
        policies = Policies(start_at=begin, end_at=begin + timedelta(seconds=seconds + 5))
        every = Every(timedelta(seconds=1))
        definition = Definition("tick", every, policies=policies, args=encode({}), app="bench")
        for first in range(0, count, 1000):
            app.jobs.create([definition] * min(1000, count - first), allow_unknown=True)
        return {"began": begin.timestamp()}


def _work_for_rq() -> None:
    """Run one of RQ's own workers, which forks for each message."""
    from ostinato.features.rq.messages import connect
    from ostinato.rq import Worker, use

    connection = connect(app.settings.redis_url.reveal())
    use(app, connection)
    Worker(["default"], connection=connection).work(with_scheduler=True, logging_level="ERROR")


def _watch_the_lock(file: str) -> None:
    """Write the longest wait for SQLite's write lock, in seconds, to a file."""
    from ostinato.store import sqlite

    original, longest = sqlite.FileLock.held, 0.0

    @contextmanager
    def held(turn: sqlite.FileLock, seconds: float) -> Iterator[None]:
        nonlocal longest
        began = time.monotonic()
        turn_taken: AbstractContextManager[None] = original(turn, seconds)
        with turn_taken:
            if (waited := time.monotonic() - began) > longest:
                longest = waited
                with open(file, "w") as out:
                    json.dump(waited, out)
            yield

    sqlite.FileLock.held = held  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Ours)
