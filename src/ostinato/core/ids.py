"""Ids: made and read several times for each execution, so without the checks of `UUID(…)` (0.4 instead of 1.4 µs)."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, SafeUUID

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
VERSION_7: Final = 7 << 76
MILLISECOND_BITS: Final = 80  # below the milliseconds since the epoch
VARIANT: Final = 0b10 << 62
FIRST_ID: Final = UUID(int=0)  # before all ids

UNKNOWN: Final = SafeUUID.unknown  # a lookup in an Enum costs a call

_new: Final = object.__new__
_set_int: Final[Any] = UUID.__dict__["int"].__set__
_set_safety: Final[Any] = UUID.__dict__["is_safe"].__set__


def uuid_of(number: int) -> UUID:
    """Make a UUID from a number that is known to be valid."""
    made = _new(UUID)
    _set_int(made, number)
    _set_safety(made, UNKNOWN)
    return made


def head_of(now: datetime) -> int:
    """Return the part of an id that comes from its instant; the rest is random."""
    milliseconds, rest = divmod((max(now, EPOCH) - EPOCH) // MICROSECOND, 1000)
    return milliseconds << MILLISECOND_BITS | VERSION_7 | rest * 4096 // 1000 << 64 | VARIANT


def first_of(at: datetime) -> UUID:
    """Return the least id of an instant: no id below it was made then or later."""
    return uuid_of(head_of(at))
