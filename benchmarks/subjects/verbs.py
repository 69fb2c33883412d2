"""The command line of all subjects. It runs in the peers' environments, so it uses only the standard library."""

import asyncio
import json
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.025  # seconds between two jobs for an idle worker


class Subject:
    """A program to measure; `many` returns False without a bulk enqueue."""

    async def setup(self) -> None: ...

    async def open(self) -> None: ...

    async def one(self, number: int) -> None:
        raise NotImplementedError

    async def many(self, numbers: Sequence[int]) -> Any:
        return False

    def work(self) -> None:
        raise NotImplementedError

    def recur(self, count: int, seconds: float) -> dict[str, Any] | None:
        """Run schedules in this process; return {"began": instant of the first due time}."""
        return None


def main(subject: Callable[[], Subject]) -> None:
    logging.basicConfig(level=logging.ERROR)
    verb, *rest = sys.argv[1:]
    if verb == "work":
        subject().work()
    elif verb == "recur":
        print(json.dumps(subject().recur(int(rest[0]), float(rest[1]))), flush=True)
    else:
        print(json.dumps(asyncio.run(VERBS[verb](subject(), int(rest[0])))), flush=True)
    os._exit(0)  # threads of peers would delay the exit


async def _setup(subject: Subject, _: int) -> None:
    await subject.setup()


async def _fill(subject: Subject, count: int) -> float:
    await subject.open()
    began = time.perf_counter()
    if await subject.many(range(count)) is False:
        for number in range(count):
            await subject.one(number)
    return count / (time.perf_counter() - began)


async def _single(subject: Subject, count: int) -> float:
    await subject.open()
    began = time.perf_counter()
    for number in range(count):
        await subject.one(number)
    return count / (time.perf_counter() - began)


async def _bulk(subject: Subject, count: int) -> float | None:
    await subject.open()
    began = time.perf_counter()
    if await subject.many(range(count)) is False:
        return None
    return count / (time.perf_counter() - began)


async def _send(subject: Subject, count: int) -> list[tuple[int, float]]:
    await subject.open()
    chance, sent = random.Random(7), []
    for number in range(count):
        await asyncio.sleep(chance.uniform(SHORTEST_PAUSE, LONGEST_PAUSE))
        await subject.one(number)
        sent.append((number, time.time()))
    return sent


VERBS = {"setup": _setup, "fill": _fill, "single": _single, "bulk": _bulk, "send": _send}


def in_batches(numbers: Sequence[int], size: int = 1000) -> list[list[int]]:
    return [list(numbers[first : first + size]) for first in range(0, len(numbers), size)]
