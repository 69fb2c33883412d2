"""The gate of a crawl's requests: it asks the worker, since all processes share the budgets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.errors import BudgetSpent
from ostinato.core.providers import Key
from ostinato.outgoing import RequestPermit

FRESH: Final = 2.0  # seconds for which requests to a host without a budget need no question
KINDS: Final[dict[str, type[Key]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class CrawlPermit:
    """Permission to send one request."""

    def __init__(self, answer: list[Any], over: list[list[str]]) -> None:
        self._id, self._domain, key = answer
        self.key: Key | None = None if key is None else KINDS[key.pop("type")](**key)
        self._finished = over

    def over(self) -> None:
        self._finished.append([self._id, self._domain])


class AskedGate:
    """Gate that asks the worker before each request, and reports finished requests with the next question.

    A host has the budget of its provider. Without one, all crawls take turns at the host, with a pause after each.
    """

    def __init__(self, ask: Ask, pause: float) -> None:
        """`pause`: seconds between two requests to a host."""
        self._ask, self._pause = ask, pause
        self._pauses = dict[str, float]()  # for hosts with longer pauses
        self._over: list[list[str]] = []
        self._free = dict[str, float]()

    def slow_down(self, host: str, pause: float) -> None:
        """Set a longer pause for a host."""
        self._pauses[host] = max(pause, self._pauses.get(host, self._pause))

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        deadline, pause = time.monotonic() + patience, self._pauses.get(host, self._pause)
        while pause or time.monotonic() >= self._free.get(host, 0.0):
            answer = await self._asked({"host": host, "within": within, "pause": pause})
            if "leave" in answer:
                return CrawlPermit(answer["leave"], self._over)
            if "wait" in answer:
                await asyncio.sleep(answer["wait"])
                break
            if "opens_in" not in answer:
                self._free[host] = time.monotonic() + FRESH
                break
            if answer["opens_in"] > max(deadline - time.monotonic(), 0):
                raise BudgetSpent(answer["domain"], datetime.fromisoformat(answer["opens_at"]).astimezone(UTC))
            await asyncio.sleep(max(answer["opens_in"], 0.001))
        return None

    async def close(self) -> None:
        if self._over:
            await self._asked({"host": None, "within": 0, "pause": 0})

    async def _asked(self, what: dict[str, Any]) -> dict[str, Any]:
        over, self._over[:] = list(self._over), []
        return await self._ask({"do": "admit", "over": over, **what})
