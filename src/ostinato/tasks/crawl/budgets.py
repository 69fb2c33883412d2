"""The gate of a crawl's requests: its worker is asked, which asks the budgets that all processes share."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.errors import BudgetSpent
from ostinato.core.providers import Key
from ostinato.outgoing import Admission

FRESH: Final = 2.0  # seconds for which a host that nobody counts is let through unasked
KINDS: Final[dict[str, type[Key]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Leave:
    """Leave for one request."""

    def __init__(self, told: list[Any], over: list[list[str]]) -> None:
        self._id, self._domain, key = told
        self.key: Key | None = None if key is None else KINDS[key.pop("type")](**key)
        self._told = over

    def over(self) -> None:
        self._told.append([self._id, self._domain])


class AskedGate:
    """Asks the worker, one request at a time; what was answered is told with the next question."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._over: list[list[str]] = []
        self._free = dict[str, float]()

    async def admit(self, host: str, patience: float, within: float) -> Admission | None:
        deadline = time.monotonic() + patience
        while time.monotonic() >= self._free.get(host, 0.0):
            told = await self._asked({"host": host, "within": within})
            if "leave" in told:
                return Leave(told["leave"], self._over)
            if "opens_in" not in told:
                self._free[host] = time.monotonic() + FRESH
                break
            if told["opens_in"] > max(deadline - time.monotonic(), 0):
                raise BudgetSpent(told["domain"], datetime.fromisoformat(told["opens_at"]).astimezone(UTC))
            await asyncio.sleep(max(told["opens_in"], 0.001))
        return None

    async def close(self) -> None:
        if self._over:
            await self._asked({"host": None, "within": 0})

    async def _asked(self, what: dict[str, Any]) -> dict[str, Any]:
        over, self._over[:] = list(self._over), []
        return await self._ask({"do": "admit", "over": over, **what})
