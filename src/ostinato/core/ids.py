"""Ids: made and read several times for each execution, so without the checks of `UUID(…)` (0.4 instead of 1.4 µs)."""

from typing import Any, Final
from uuid import UUID, SafeUUID

UNKNOWN: Final = SafeUUID.unknown  # looking up a member of an Enum is a call

_new: Final = object.__new__
_set_int: Final[Any] = UUID.__dict__["int"].__set__
_set_safety: Final[Any] = UUID.__dict__["is_safe"].__set__


def uuid_of(number: int) -> UUID:
    """A UUID from a number that is known to be one."""
    made = _new(UUID)
    _set_int(made, number)
    _set_safety(made, UNKNOWN)
    return made
