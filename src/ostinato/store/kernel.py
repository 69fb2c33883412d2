"""`Kernel`: what a feature gets of the kernel, in calls of its tasks and in its duties."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ostinato.clock import Clock
from ostinato.core.model import Chance, Live
from ostinato.store.store import Store
from ostinato.task import CallReply

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Kernel:
    """Database, clock and chance of a process."""

    store: Store
    clock: Clock
    chance: Chance

    def part(self, kind: Callable[[Store], P]) -> P:
        """Return the tables of a feature."""
        return self.store.part(kind)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call that a running task may make; its function waits for the database.

    A statement of the function that writes must carry the id and the fence of the run. With `repeats` it is called
    again while the database is unavailable and the lease is trusted, so calling it twice must do no harm.
    """

    answer: Callable[[Kernel, Live, Any], CallReply]
    repeats: bool = False
