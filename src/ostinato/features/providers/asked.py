"""The gate of a task in a process of its own: it asks the worker, since all processes share the budgets."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from ostinato.core.errors import BudgetSpent
from ostinato.features.providers.rules import KNOWN_AFTER, parse_key
from ostinato.outgoing import RequestPermit

Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


class _AskedPermit:
    """Permission to send one request."""

    def __init__(self, answer: list[Any], over: list[list[str]]) -> None:
        self._id, self._domain, key = answer
        self.key = None if key is None else parse_key(key)
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
                return _AskedPermit(answer["permit"], self._over)
            if "opens_in" not in answer:
                self._free[host] = time.monotonic() + KNOWN_AFTER
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
