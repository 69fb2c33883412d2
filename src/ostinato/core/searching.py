"""Searches for due times that can be stopped: the caller gets the times found so far."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

Expired = Callable[[], bool]  # whether a search has used its time


class DueTimes(NamedTuple):
    """Due times, and whether the search for them reached its end."""

    times: list[datetime]
    complete: bool


def no_limit() -> bool:
    """Let a search run to its end."""
    return False


def search(steps: Iterator[datetime | None], n: int, expired: Expired) -> DueTimes:
    """Take `n` due times. A step finds one, or none; between two steps the search may expire."""
    found: list[datetime] = []
    if n <= 0:
        return DueTimes(found, complete=True)
    for due in steps:
        if due is not None:
            found.append(due)
        if len(found) == n:
            break
        if expired():
            return DueTimes(found, complete=False)
    return DueTimes(found, complete=True)
