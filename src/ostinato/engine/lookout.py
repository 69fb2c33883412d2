"""When a claim may find something that the last one did not.

A claim that finds nothing costs nearly as much as one that brings a job, and takes its turn from whoever settles or
fires. So what has merely ended calls for none, unless there had been no room for more.
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
        """Whether to look now, with so much room."""
        return self._called or (self._cramped and room > 0) or self._seconds() >= self._until

    def look(self) -> None:
        """Somebody looks now: who calls from here on calls for the next look."""
        self._called = False

    def seen(self, pause: float, *, cramped: bool) -> None:
        """Nothing more before a pause, as far as could be seen; if it was cramped, there may be when there is room."""
        self._until, self._cramped = self._seconds() + pause, cramped

    @property
    def pause(self) -> float:
        """Seconds until it is time to look, if nobody calls."""
        return 0.0 if self._called else max(0.0, self._until - self._seconds())
