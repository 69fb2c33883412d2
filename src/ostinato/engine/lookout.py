"""The decision when to claim again.

A claim that finds nothing costs nearly as much as one that brings a job, and delays settles and firing. So the end of a
run causes no claim, unless the last claim had no room for more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from ostinato.store.claiming import Claim


@dataclass(frozen=True, slots=True)
class Order:
    """A claim, and how much it may bring."""

    worker: UUID
    room: int
    make: Callable[[], Claim]


class Lookout:
    """Knows when to look: when somebody called, when a time has come, when there is room again."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """`seconds` is a clock that nobody sets."""
        self._seconds = seconds
        self._called = True
        self._cramped = False
        self._until = 0.0

    def call(self) -> None:
        """There may be something, whoever says so."""
        self._called = True

    def worthwhile(self, room: int) -> bool:
        """Return True if a claim now, with this much room, may find work."""
        return self._called or (self._cramped and room > 0) or self._seconds() >= self._until

    def look(self) -> None:
        """Note that a claim begins: later calls ask for the next one."""
        self._called = False

    def seen(self, pause: float, *, cramped: bool) -> None:
        """Nothing more before a pause, as far as could be seen; if it was cramped, there may be when there is room."""
        self._until, self._cramped = self._seconds() + pause, cramped

    @property
    def pause(self) -> float:
        """Seconds until it is time to look, if nobody calls."""
        return 0.0 if self._called else max(0.0, self._until - self._seconds())
