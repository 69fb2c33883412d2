"""Cells: instants and ids as the databases store them. Both store instants as whole microseconds since 1970; SQLite
stores ids as 16 bytes."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from ostinato.core.ids import EPOCH, uuid_of

EXACT_AS_FLOAT: Final = 2**52  # microseconds (year 2112): below, fromtimestamp of a float rounds correctly


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since 1970."""
    since = instant - EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(4096)  # rows queued or due together share their instants
def from_micros(micros: int) -> datetime:
    """Return microseconds since 1970 as a datetime in UTC."""
    if 0 <= micros < EXACT_AS_FLOAT:
        return datetime.fromtimestamp(micros / 1e6, UTC)
    return EPOCH + timedelta(microseconds=micros)


def to_uuid(value: UUID | bytes) -> UUID:
    """Return an id from either database as a UUID."""
    if type(value) is not bytes:
        return value  # type: ignore[return-value]
    return uuid_of(int.from_bytes(value, "big"))


def to_bytes(value: UUID | bytes) -> bytes:
    """Return an id from either database as bytes: quick to compare and to look up."""
    return value if type(value) is bytes else value.int.to_bytes(16, "big")  # type: ignore[union-attr]
