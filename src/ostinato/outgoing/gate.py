"""The gate that every hop of a request passes before it is sent: the budgets of providers stand behind it."""

from typing import Protocol

from ostinato.core.auth import InHeader, InQuery


class Admission(Protocol):
    """Leave to send one request."""

    @property
    def key(self) -> InHeader | InQuery | None:
        """What the provider wants to see with each request."""

    def over(self) -> None:
        """It has arrived (its answer has begun) or never will: from now on it only grows old."""


class Gate(Protocol):
    """Lets requests through to a host, or raises BudgetSpent."""

    async def admit(self, host: str, patience: float) -> Admission | None:
        """Leave for one request, waited for up to so many seconds; None where nobody counts."""


class OpenGate:
    """Nobody counts."""

    async def admit(self, host: str, patience: float) -> Admission | None:
        return None
