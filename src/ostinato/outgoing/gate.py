"""The gate that every hop of a request passes before it is sent: the budgets of providers stand behind it."""

from typing import Protocol

from ostinato.core.providers import Key


class RequestPermit(Protocol):
    """Leave to send one request."""

    @property
    def key(self) -> Key | None:
        """The provider's key for each request."""

    def over(self) -> None:
        """It has arrived (its answer has begun) or never will: from now on it only grows old."""


class Gate(Protocol):
    """Lets requests through to a host, or raises BudgetSpent."""

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        """Leave for one request whose answer begins within so many seconds, or never; None where nobody counts.

        It is waited for up to `patience` seconds.
        """

    async def close(self) -> None:
        """No more requests."""


class OpenGate:
    """A gate without budgets."""

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        return None

    async def close(self) -> None:
        pass
