"""Ostinato as a subject: fill, work, send."""

import json
import os
import random
import sys
import time

from benchmarks.marks import mark
from ostinato import Ostinato

app = Ostinato("bench", run_log=False)


@app.task
async def noop(number: int) -> None:
    mark(number)


@app.task
def noop_in_thread(number: int) -> None:
    mark(number)


def fill(count: int) -> None:
    """Enqueue so many, in bulk; say how fast."""
    task = noop_in_thread if os.environ.get("KIND") == "thread" else noop
    app.open(upgrade=True)
    began = time.perf_counter()
    for first in range(0, count, 1000):
        app.enqueue([task.bind(number) for number in range(first, min(first + 1000, count))])
    print(json.dumps({"per_second": count / (time.perf_counter() - began)}))


def send(count: int) -> None:
    """Enqueue one at a time, with pauses; leave when each was sent."""
    luck, sent = random.Random(7), []
    for number in range(count):
        time.sleep(luck.uniform(0.005, 0.04))
        noop.enqueue(number)
        sent.append((number, time.time()))
    print(json.dumps(sent))


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "work":
        app.open(upgrade=True)
        app.run()
    else:
        {"fill": fill, "send": send}[verb](int(rest[0]))
