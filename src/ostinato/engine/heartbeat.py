"""The heartbeat: a sign of life to an outside monitor, which raises an alarm when it stops."""

from collections.abc import Callable
from typing import Final

from ostinato.config import Secret
from ostinato.core.errors import BudgetSpent, Invalid, StoreError, Unreachable
from ostinato.outgoing import Outgoing
from ostinato.store.kernel import InStore
from ostinato.telemetry.reports import Telemetry

ANSWER_WITHIN: Final = 10.0


class Heartbeat:
    """Calls of a URL while there are no problems. `troubles` lists the problems."""

    def __init__(
        self,
        url: Secret,
        outgoing: Outgoing,
        telemetry: Telemetry,
        troubles: Callable[[], list[str]],
        in_store: InStore,
    ) -> None:
        self._url, self._outgoing, self._telemetry = url, outgoing, telemetry
        self._troubles, self._in_store = troubles, in_store

    async def step(self) -> bool:
        """Call the URL once; return True if the monitor accepted it."""
        trouble = await self._trouble()
        self._telemetry.heartbeat(trouble)
        return trouble is None

    async def _trouble(self) -> str | None:
        try:
            troubles = await self._in_store(self._troubles)
        except StoreError:
            troubles = ["The database does not answer."]
        if troubles:
            return " ".join(troubles)
        try:
            answer = await self._outgoing.call("GET", self._url.reveal(), seconds=ANSWER_WITHIN)
        except (Unreachable, BudgetSpent, Invalid, StoreError) as error:
            return str(error)
        return None if answer.good else f"The monitor answered {answer.status}."
