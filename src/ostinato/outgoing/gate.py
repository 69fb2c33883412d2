"""The gate, which admits each hop of a request to another host. A feature may bring one; it can limit the requests."""

from collections.abc import Callable
from typing import Protocol

from ostinato.core.auth import RequestKey


class RequestPermit(Protocol):
    """Permission to send one request."""

    @property
    def key(self) -> RequestKey | None:
        """The credential that the gate adds to the request."""

    def over(self) -> None:
        """Note that the answer has begun or failed: from now on the request only ages out of the window."""


class Gate(Protocol):
    """Gate that admits requests to a host, or raises BudgetSpent."""

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        """Admit one request whose answer begins within `within` seconds or fails; return None without a budget.

        Wait for the budget up to `patience` seconds.
        """

    async def close(self) -> None:
        """End the gate: no more requests follow."""


class OpenGate:
    """A gate without budgets."""

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        return None

    async def close(self) -> None:
        pass


class LateGate:
    """A gate that is made for the first request: most processes send none."""

    def __init__(self, make: Callable[[], Gate]) -> None:
        self._make = make
        self._gate: Gate | None = None

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        if self._gate is None:
            self._gate = self._make()
        return await self._gate.admit(host, patience, within)

    async def close(self) -> None:
        if self._gate is not None:
            await self._gate.close()
