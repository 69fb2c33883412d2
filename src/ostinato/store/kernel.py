"""`Kernel`: what a feature gets of the kernel, in calls of its tasks, in its gate and in its duties."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ostinato.clock import Clock
from ostinato.config import Grants
from ostinato.core.builtin import Permits
from ostinato.core.model import Chance, Live
from ostinato.feature import Features
from ostinato.outgoing import Gate, LateGate, OpenGate, Outgoing
from ostinato.store.store import Store
from ostinato.task import CallReply

P = TypeVar("P")
T = TypeVar("T")


class InStore(Protocol):
    """Function that makes a call to the store on another thread."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Kernel:
    """Database, clock and chance of a process."""

    store: Store
    clock: Clock
    chance: Chance

    @property
    def features(self) -> Features:
        return self.store.database.features

    def part(self, kind: Callable[[Store], P]) -> P:
        """Return the tables of a feature."""
        return self.store.part(kind)

    def outgoing(self, in_store: InStore, permits: Permits) -> Outgoing:
        """Return an HTTP client whose requests pass the gate of a feature, if one has a gate."""

        def gate() -> Gate:
            module = self.features.gate
            made: Gate = OpenGate() if module is None else module.gate(self, in_store)
            return made

        return Outgoing(egress=permits.egress, grants=Grants.of(permits), gate=LateGate(gate), clock=self.clock)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A call that a running task may make; its function waits for the database.

    A statement that writes for the run must carry its id and its fence; None says that they are stale. With `repeats`
    the function is called again while the database is unavailable and the lease is trusted, so calling it twice must
    do no harm.
    """

    answer: Callable[[Kernel, Live, Any], CallReply | None]
    repeats: bool = False
