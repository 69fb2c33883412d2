"""The gate, which checks the budgets of providers before each hop of a request."""

from typing import Protocol

from ostinato.core.providers import Key


class RequestPermit(Protocol):
    """Permission to send one request."""

    @property
    def key(self) -> Key | None:
        """The provider's key for each request."""

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
