"""Chance, from one place, so that a simulation can be repeated from its seed."""

import random
import threading
from datetime import datetime
from uuid import UUID

from ostinato.core.ids import head_of, uuid_of

ROOM_TO_RISE = 60  # bits of chance at first, of 62: ids of one instant rise from there
STEP = 24  # bits of the steps by which they rise


class RandomChance:
    """Ordinary chance; with a seed, always the same."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._turn = threading.Lock()
        self._now: datetime | None = None
        self._head = 0
        self._tail = 0

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def id(self, now: datetime) -> UUID:
        """A version 7 UUID: milliseconds, then the rest of the microseconds, then chance. None is older than 1970.

        Ids that one process makes for the same instant rise too: what it did first is listed first.
        """
        with self._turn:
            self._come_to(now)
            self._tail += 1 + self._random.getrandbits(STEP)
            return uuid_of(self._head | self._tail)

    def ids(self, now: datetime, count: int) -> list[UUID]:
        """As many of them, in one go: 0.9 instead of 1.4 µs each."""
        return [uuid_of(number) for number in self._numbers(now, count)]

    def ids_as_bytes(self, now: datetime, count: int) -> list[bytes]:
        """The same for rows that nobody here asks for by their ids: half of that."""
        return [number.to_bytes(16, "big") for number in self._numbers(now, count)]

    def _numbers(self, now: datetime, count: int) -> list[int]:
        with self._turn:
            self._come_to(now)
            bits, head, tail = self._random.getrandbits, self._head, self._tail
            made = [head | (tail := tail + 1 + bits(STEP)) for _ in range(count)]
            self._tail = tail
            return made

    def _come_to(self, now: datetime) -> None:
        if now != self._now:
            self._now, self._head, self._tail = now, head_of(now), self._random.getrandbits(ROOM_TO_RISE)
