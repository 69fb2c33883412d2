"""The gate of a crawl's requests: the budget of the host's provider, or else the turns that all crawls take."""

import asyncio

from ostinato.features.providers.asked import Ask, AskedBudgets
from ostinato.outgoing import RequestPermit


class PoliteGate:
    """Gate of a crawl. A host has the budget of its provider. Without one, all crawls take turns at the host, with a
    pause after each."""

    def __init__(self, ask: Ask, pause: float) -> None:
        """`pause`: seconds between two requests to a host."""
        self._ask, self._pause, self._budgets = ask, pause, AskedBudgets(ask)
        self._pauses = dict[str, float]()  # for hosts with longer pauses

    def slow_down(self, host: str, pause: float) -> None:
        """Set a longer pause for a host."""
        self._pauses[host] = max(pause, self._pauses.get(host, self._pause))

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        permit = await self._budgets.admit(host, patience, within)
        pause = self._pauses.get(host, self._pause)
        if permit is None and pause:
            await asyncio.sleep(await self._ask("crawling.take_turn", {"host": host, "pause": pause}))
        return permit

    async def close(self) -> None:
        await self._budgets.close()
