"""The heartbeat: a sign of life to an outside monitor, which raises an alarm when it stops."""

import logging
from collections.abc import Callable
from typing import Final

from ostinato.config import Secret
from ostinato.core.errors import BudgetSpent, Invalid, StoreError, Unreachable
from ostinato.engine.duties import EngineParts, Step
from ostinato.outgoing import Outgoing
from ostinato.store.kernel import InStore
from ostinato.telemetry.reports import Counts, log_line

ANSWER_WITHIN: Final = 10.0


def start(engine: EngineParts) -> Step:
    """Return the step of the loop that calls the monitor."""
    url, counts = engine.settings.heartbeat_url, engine.telemetry.counts
    return Heartbeat(url, engine.outgoing, counts, engine.troubles, engine.in_store).step


class Heartbeat:
    """Calls of a URL while there are no problems. `troubles` lists the problems."""

    def __init__(
        self,
        url: Secret,
        outgoing: Outgoing,
        counts: Counts,
        troubles: Callable[[], list[str]],
        in_store: InStore,
    ) -> None:
        self._url, self._outgoing, self._counts = url, outgoing, counts
        self._troubles, self._in_store = troubles, in_store
        self._failed = False

    async def step(self) -> bool:
        """Call the URL once; return True if the monitor accepted it."""
        trouble = await self._trouble()
        self._report(trouble)
        return trouble is None

    def _report(self, trouble: str | None) -> None:
        """Count the call, or the reason without one; log only a change."""
        self._counts.add("heartbeat", "missed" if trouble else "heard")
        if trouble is not None and not self._failed:
            log_line(logging.WARNING, "Heartbeat failed", why=trouble)
        elif trouble is None and self._failed:
            log_line(logging.INFO, "Heartbeat works again")
        self._failed = trouble is not None

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
