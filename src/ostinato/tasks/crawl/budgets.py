"""The gate of a crawl's requests: it asks the worker, since all processes share the budgets and the turns at hosts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from ostinato.core.auth import Bearer, InHeader, InQuery, RequestKey
from ostinato.core.errors import BudgetSpent
from ostinato.outgoing import RequestPermit

FRESH: Final = 2.0  # seconds for which requests to a host without a budget need no question
KINDS: Final[dict[str, type[RequestKey]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


class AskedPermit:
    """Permission to send one request."""

    def __init__(self, answer: list[Any], over: list[list[str]]) -> None:
        self._id, self._domain, key = answer
        self.key: RequestKey | None = None if key is None else KINDS[key.pop("type")](**key)
        self._finished = over

    def over(self) -> None:
        self._finished.append([self._id, self._domain])


class AskedBudgets:
    """Gate that asks the worker before each request, and reports finished requests with the next question."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._over: list[list[str]] = []
        self._free = dict[str, float]()

    async def admit(self, host: str, patience: float, within: float) -> RequestPermit | None:
        deadline = time.monotonic() + patience
        while time.monotonic() >= self._free.get(host, 0.0):
            answer = await self._asked(host, within)
            if "permit" in answer:
                return AskedPermit(answer["permit"], self._over)
            if "opens_in" not in answer:
                self._free[host] = time.monotonic() + FRESH
                break
            if answer["opens_in"] > max(deadline - time.monotonic(), 0):
                raise BudgetSpent(answer["domain"], datetime.fromisoformat(answer["opens_at"]).astimezone(UTC))
            await asyncio.sleep(max(answer["opens_in"], 0.001))
        return None

    async def close(self) -> None:
        if self._over:
            await self._asked(None, 0)

    async def _asked(self, host: str | None, within: float) -> dict[str, Any]:
        over, self._over[:] = list(self._over), []
        answer: dict[str, Any] = await self._ask("providers.admit", {"host": host, "within": within, "over": over})
        return answer


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
