"""Chance, from one place, so that a simulation can be repeated from its seed."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
VERSION_7 = 7 << 76
VARIANT = 0b10 << 62


class RandomLuck:
    """Ordinary chance; with a seed, always the same."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def id(self, now: datetime) -> UUID:
        """A version 7 UUID: milliseconds, then the rest of the microseconds, then chance. None is older than 1970."""
        milliseconds, rest = divmod((max(now, EPOCH) - EPOCH) // MICROSECOND, 1000)
        sub_millisecond = rest * 4096 // 1000
        return UUID(
            int=milliseconds << 80
            | VERSION_7
            | sub_millisecond << 64
            | VARIANT
            | self._random.getrandbits(62)
        )
