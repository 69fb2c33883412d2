"""The gate of outgoing requests: it checks the budgets of providers, which all processes share in the database.

Requests to hosts without a provider need no transaction: the list of providers is read at most every two seconds. For
other hosts a permit is taken in its own transaction before the request is sent. When the answer has begun, this is
noted, with the next taking or by itself. When a budget is spent, the process does not ask the database again before
the window opens (rules.py has the rule).
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from ostinato.clock import Clock
from ostinato.core.auth import RequestKey
from ostinato.core.errors import BudgetSpent, StoreError
from ostinato.features.providers.rows import BudgetSpending, BudgetTaken, Providers
from ostinato.features.providers.rules import KNOWN_AFTER, Provider, provider_of
from ostinato.outgoing import Gate
from ostinato.store.kernel import InStore, Kernel

PERMITS_VALID_FOR: Final = 2.0  # seconds for which unused permits stay valid
HOLD_MARGIN: Final = 5.0  # seconds for which a batch is held beyond the time of its requests


def gate(kernel: Kernel, in_store: InStore) -> Gate:
    """Return the gate of a process."""
    return Budgets(kernel.part(Providers), kernel.clock, in_store)


class Budgets:
    """Gate for all hosts."""

    def __init__(self, providers: Providers, clock: Clock, in_store: InStore) -> None:
        self._providers, self._clock, self._in_store = providers, clock, in_store
        self._known: Mapping[str, Provider] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._budgets: dict[str, Budget] = {}

    async def admit(self, host: str, patience: float, within: float) -> "_BudgetPermit | None":
        provider = provider_of(host, await self._list())
        if provider is None:
            return None
        budget = self._budgets.get(provider.domain)
        if budget is None or budget.provider != provider:
            budget = Budget(provider, self._providers, self._clock, self._in_store)
            self._budgets[provider.domain] = budget
        return await budget.admit(patience, within)

    async def close(self) -> None:
        for budget in self._budgets.values():
            await budget.close()

    async def _list(self) -> Mapping[str, Provider]:
        if self._clock.monotonic() - self._read_at < KNOWN_AFTER:
            return self._known
        async with self._reading:
            if self._clock.monotonic() - self._read_at >= KNOWN_AFTER:
                try:
                    found = await self._in_store(self._providers.all)
                    self._known = {each.domain: each for each in found}
                except StoreError:
                    if self._read_at == float("-inf"):
                        raise  # the providers are still unknown
                self._read_at = self._clock.monotonic()
        return self._known


class _BudgetPermit:
    """Permission to send one request."""

    __slots__ = ("_batch", "_over", "key")

    def __init__(self, batch: "Batch", key: RequestKey | None) -> None:
        self.key, self._batch, self._over = key, batch, False

    def over(self) -> None:
        if not self._over:
            self._over = True
            self._batch.one_over()


class Batch:
    """Permits taken together. When all are used and finished, the batch ends and is reported."""

    def __init__(self, taken: BudgetTaken, held_until: float, good_until: float, budget: "Budget") -> None:
        self._id, self._left, self._used, self._out = taken.id, taken.count, 0, 0
        self.held_until, self._good_until, self._budget = held_until, good_until, budget
        self._answered_at: datetime | None = None

    def is_good(self, at: float, within: float) -> bool:
        """Return True if a request of this duration can still use one of these permits."""
        return self._left > 0 and at <= self._good_until and at + within <= self.held_until

    def one(self) -> _BudgetPermit:
        self._left, self._used, self._out = self._left - 1, self._used + 1, self._out + 1
        return _BudgetPermit(self, self._budget.provider.key)

    def one_over(self) -> None:
        self._out -= 1
        self._answered_at = self._budget.now()
        if not self._left:
            self._report()

    def close(self) -> None:
        """Give up the remaining permits."""
        if self._left:
            self._left = 0
            self._report()

    def _report(self) -> None:
        if not self._out:
            answered_at = self._answered_at or self._budget.now()
            self._budget.over(BudgetSpending(self._id, self._budget.provider.domain, self._used, answered_at))


class Budget:
    """The budget of one provider in this process."""

    def __init__(self, provider: Provider, providers: Providers, clock: Clock, in_store: InStore) -> None:
        self.provider, self._providers, self._clock, self._in_store = provider, providers, clock, in_store
        self._batch: Batch | None = None
        self._closed_until: datetime | None = None
        self._taking, self._waiting = asyncio.Lock(), 0
        self._over: list[BudgetSpending] = []
        self._reporting: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        return self._clock.now()

    async def admit(self, patience: float, within: float) -> _BudgetPermit | None:
        """Return a permit, after a wait of at most `patience`; raise BudgetSpent if it would take longer."""
        deadline = self._clock.monotonic() + patience
        while True:
            opens_at = self._closed()
            if opens_at is None:
                self._waiting += 1
                try:
                    async with self._taking:
                        found = await self._found(within)
                finally:
                    self._waiting -= 1
                    self._report_soon()
                if not isinstance(found, datetime):
                    return found
                opens_at = found
            wait = (opens_at - self.now()).total_seconds()
            if wait > max(deadline - self._clock.monotonic(), 0):
                raise BudgetSpent(self.provider.domain, opens_at)
            await asyncio.sleep(max(wait, 0.001))

    def over(self, spent: BudgetSpending) -> None:
        """Report an ended batch with the next taking, or now if no request waits."""
        self._over.append(spent)
        self._report_soon()

    async def close(self) -> None:
        if self._batch is not None:
            self._batch.close()
        if self._reporting is not None:
            await self._reporting
        await self._send_reports()

    def _closed(self) -> datetime | None:
        """Return the opening of the window, if it is known to be closed."""
        if self._closed_until is not None and self._closed_until <= self.now():
            self._closed_until = None
        return self._closed_until

    async def _found(self, within: float) -> _BudgetPermit | datetime | None:
        """Return a permit, or the time of the next one; None if the provider is removed. Only one call at a time."""
        at = self._clock.monotonic()
        if self._batch is not None:
            if self._batch.is_good(at, within):
                return self._batch.one()
            self._batch.close()
            self._batch = None
        if (closed := self._closed()) is not None:
            return closed
        hold = within + PERMITS_VALID_FOR + HOLD_MARGIN
        taken = await self._take(timedelta(seconds=hold))
        if taken is None:
            return None
        if not taken.count:
            self._closed_until = taken.opens_at
            return taken.opens_at
        self._batch = batch = Batch(taken, at + hold, at + PERMITS_VALID_FOR, self)
        asyncio.get_running_loop().call_later(PERMITS_VALID_FOR, batch.close)
        return batch.one()

    async def _take(self, hold: timedelta) -> BudgetTaken | None:
        over, self._over = self._over, []
        want, now = self._waiting, self.now()
        try:
            return await self._in_store(lambda: self._providers.take(self.provider.domain, want, now, hold, over))
        except BaseException:
            self._over = over + self._over
            raise

    def _report_soon(self) -> None:
        if self._over and not self._waiting and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._send_reports())

    async def _send_reports(self) -> None:
        """Report the used permits; unreported ones only count for longer."""
        while self._over:
            over, self._over = self._over, []
            with suppress(StoreError):
                await self._in_store(partial(self._providers.answer, over))
