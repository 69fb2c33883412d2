"""The gate of a crawl's requests: its worker is asked, which asks what all processes share."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.errors import BudgetSpent
from ostinato.core.providers import Key
from ostinato.outgoing import RequestPermit

FRESH: Final = 2.0  # seconds for which a host that nobody counts is let through unasked
KINDS: Final[dict[str, type[Key]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class CrawlPermit:
    """Leave for one request."""

    def __init__(self, told: list[Any], over: list[list[str]]) -> None:
        self._id, self._domain, key = told
        self.key: Key | None = None if key is None else KINDS[key.pop("type")](**key)
        self._told = over

    def over(self) -> None:
        self._told.append([self._id, self._domain])


class AskedGate:
    """Asks the worker, one request at a time; what was answered is told with the next question.

    A host has the budget of its provider, if it has one; else all crawls take turns, each of which ends with a pause.
    """

    def __init__(self, ask: Ask, pause: float) -> None:
        """`pause`: seconds between two requests to a host."""
        self._ask, self._pause = ask, pause
        self._pauses = dict[str, float]()  # of hosts that want more
        self._over: list[list[str]] = []
        self._free = dict[str, float]()

    def slow_down(self, host: str, pause: float) -> None:
        """A host asks for longer pauses."""
        self._pauses[host] = max(pause, self._pauses.get(host, self._pause))

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        deadline, pause = time.monotonic() + patience, self._pauses.get(host, self._pause)
        while pause or time.monotonic() >= self._free.get(host, 0.0):
            told = await self._asked({"host": host, "within": within, "pause": pause})
            if "leave" in told:
                return CrawlPermit(told["leave"], self._over)
            if "wait" in told:
                await asyncio.sleep(told["wait"])
                break
            if "opens_in" not in told:
                self._free[host] = time.monotonic() + FRESH
                break
            if told["opens_in"] > max(deadline - time.monotonic(), 0):
                raise BudgetSpent(told["domain"], datetime.fromisoformat(told["opens_at"]).astimezone(UTC))
            await asyncio.sleep(max(told["opens_in"], 0.001))
        return None

    async def close(self) -> None:
        if self._over:
            await self._asked({"host": None, "within": 0, "pause": 0})

    async def _asked(self, what: dict[str, Any]) -> dict[str, Any]:
        over, self._over[:] = list(self._over), []
        return await self._ask({"do": "admit", "over": over, **what})
