"""Values in PostgreSQL's binary form, each behind its length: for arrays and for COPY."""

from functools import partial
from struct import Struct
from typing import Final

NULL: Final = Struct("!i").pack(-1)
LENGTH: Final = Struct("!i").pack

bigint: Final = partial(Struct("!iq").pack, 8)
double: Final = partial(Struct("!id").pack, 8)


def text(value: str) -> bytes:
    encoded = value.encode()
    return LENGTH(len(encoded)) + encoded


def raw(value: bytes) -> bytes:
    return LENGTH(len(value)) + value
