"""Random numbers and ids from one source, so that a simulation can be repeated from its seed."""

import random
import threading
from datetime import datetime
from uuid import UUID

from ostinato.core.model import head_of, uuid_of

FIRST_BITS = 60  # random bits of the first id of an instant, of 62; later ids rise from there
STEP_BITS = 24  # random bits of the step to the next id


class RandomChance:
    """Source of random numbers; with a seed, always the same."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._turn = threading.Lock()
        self._now: datetime | None = None
        self._head = 0
        self._tail = 0

    def fraction(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def id(self, now: datetime) -> UUID:
        """Return a version 7 UUID: milliseconds, then the rest of the microseconds, then random bits.

        No id is older than 1970. Ids of one process for the same instant rise too, so lists keep their order.
        """
        with self._turn:
            self._come_to(now)
            self._tail += 1 + self._random.getrandbits(STEP_BITS)
            return uuid_of(self._head | self._tail)

    def ids(self, now: datetime, count: int) -> list[UUID]:
        """Return `count` ids at once: 0.9 instead of 1.4 µs each."""
        return [uuid_of(number) for number in self._numbers(now, count)]

    def ids_as_bytes(self, now: datetime, count: int) -> list[bytes]:
        """Return `count` ids as bytes, for rows that are only written: half of that time."""
        return [number.to_bytes(16, "big") for number in self._numbers(now, count)]

    def _numbers(self, now: datetime, count: int) -> list[int]:
        with self._turn:
            self._come_to(now)
            bits, head, tail = self._random.getrandbits, self._head, self._tail
            made = [head | (tail := tail + 1 + bits(STEP_BITS)) for _ in range(count)]
            self._tail = tail
            return made

    def _come_to(self, now: datetime) -> None:
        if now != self._now:
            self._now, self._head, self._tail = now, head_of(now), self._random.getrandbits(FIRST_BITS)
