"""Budgets of hosts: their limits, the requests taken from them, and the executions that wait."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.auth import RequestKey
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Event
from ostinato.features.providers.rules import (
    KINDS,
    KNOWN_WITHIN,
    Passage,
    Provider,
    ProviderRow,
    batch_of,
    counts_until,
    key_written,
    opening,
)
from ostinato.store import rows
from ostinato.store.database import Tx
from ostinato.store.queue import try_deferred, waiting_for_budgets
from ostinato.store.rows import from_micros
from ostinato.store.store import Store

MICROSECOND: Final = timedelta(microseconds=1)
LONGEST_HOLD: Final = timedelta(minutes=15)
LOOKED_AT: Final = 10_000  # requests read to compute when a budget opens


@dataclass(frozen=True, slots=True)
class BudgetSpending:
    """A finished batch of permits: how many were used, and when the last was answered."""

    id: UUID
    domain: str
    used: int
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class BudgetTaken:
    """Permits for `count` requests under this id; with none, the next may be free at `opens_at`."""

    id: UUID
    count: int
    opens_at: datetime | None = None


class Providers:
    """Tables of providers and of the requests taken from their budgets."""

    def __init__(self, store: Store) -> None:
        self._database, self._chance = store.database, store.chance

    # -- providers as people declare them

    def save(self, provider: Provider, now: datetime, by: str, *, new: bool = False) -> bool:
        """Save a provider; every later take obeys it. Return True if it is new; with `new`, raise Conflict if it
        exists."""
        with self._database.write() as tx:
            before = tx.row("find_provider", domain=provider.domain)
            if before is not None and new:
                raise Conflict(f"There is a provider {provider.domain} already; PUT replaces it.")
            if before is None or _provider(before) != provider:
                tx.run(
                    "save_provider", domain=provider.domain, most=provider.limit, period=provider.period // MICROSECOND,
                    key=_key_text(provider.key), now=now, by=by,
                )  # fmt: skip
                self._tell(tx, "provider.saved", provider.domain, now, by, budget=provider.budget)
                try_deferred(tx, provider.domain, now + KNOWN_WITHIN)
        return before is None

    def delete(self, domain: str, now: datetime, by: str) -> None:
        with self._database.write() as tx:
            if not tx.run("delete_provider", domain=domain):
                raise NotFound(f"There is no provider {domain}.")
            self._tell(tx, "provider.deleted", domain, now, by)
            try_deferred(tx, domain, now + KNOWN_WITHIN)

    def all(self) -> list[Provider]:
        with self._database.read() as tx:
            return [_provider(row) for row in tx.rows("list_providers")]

    def standing(self, now: datetime) -> list[ProviderRow]:
        """List all providers, with their use and the waiting executions."""
        with self._database.read() as tx:
            found = [ProviderRow(_provider(row), from_micros(row[4]), row[5]) for row in tx.rows("list_providers")]
            used: dict[str, int] = dict(tx.rows("used_of_budgets", now=now) if found else ())
            waiting: dict[str, int] = waiting_for_budgets(tx) if found else {}
        return [
            replace(row, used=used.get(row.provider.domain, 0), waiting=waiting.get(row.provider.domain, 0))
            for row in found
        ]

    # -- permits

    def take(
        self, domain: str, want: int, now: datetime, hold: timedelta, over: Sequence[BudgetSpending] = ()
    ) -> BudgetTaken | None:
        """Take permits for at least one of `want` requests, if any are free; None if the host has no budget any more.

        The take is committed before it returns: if the process dies, its permits are spent. `over` are answered
        batches.
        """
        with self._database.write() as tx:
            row = tx.row("lock_provider", domain=domain)
            self._answer(tx, over, None if row is None else timedelta(microseconds=row[1]))
            if row is None:
                return None
            limit, period = row[0], timedelta(microseconds=row[1])
            tx.run("shorten_passages", domain=domain, latest=now + LONGEST_HOLD + period)
            tx.run("forget_passages", domain=domain, now=now)
            ((used,),) = tx.rows("count_passages", domain=domain)
            count = min(max(want, batch_of(limit)), limit - used)
            taken = self._chance.id(now)
            if count < 1:
                return BudgetTaken(taken, 0, opening(limit, period, self._passages(tx, domain), now))
            until = now + min(hold, LONGEST_HOLD) + period
            tx.run("insert_passage", id=taken, domain=domain, count=count, now=now, until=until)
            return BudgetTaken(taken, count)

    def answer(self, over: Sequence[BudgetSpending]) -> None:
        """Note answered batches: from then on they only age."""
        for domain in {each.domain for each in over}:
            with self._database.write() as tx:
                row = tx.row("lock_provider", domain=domain)
                period = None if row is None else timedelta(microseconds=row[1])
                self._answer(tx, [each for each in over if each.domain == domain], period)

    def _answer(self, tx: Tx, over: Sequence[BudgetSpending], period: timedelta | None) -> None:
        used = [each for each in over if each.used and period is not None]
        unused = [each for each in over if not each.used]
        if used and period is not None:
            tx.run(
                "answer_passages",
                [(each.id, each.used, counts_until(each.answered_at, period), each.answered_at) for each in used],
            )
        if unused:
            tx.run("return_passages", ids=[each.id for each in unused])

    def _passages(self, tx: Tx, domain: str) -> list[Passage]:
        return [
            Passage(count, from_micros(taken_at), from_micros(until), answered_at is not None)
            for count, taken_at, until, answered_at in tx.rows("list_passages", domain=domain, limit=LOOKED_AT)
        ]

    def forget(self, now: datetime) -> None:
        """Delete requests that no longer count."""
        with self._database.write() as tx:
            tx.run("forget_old_passages", now=now)

    def _tell(self, tx: Tx, kind: str, domain: str, at: datetime, by: str, **data: Any) -> None:
        text = json.dumps({"domain": domain, **data})
        tx.run("insert_events", [rows.EVENT.row(Event(self._chance.id(at), at, kind, by=by, data=text))])


def _key_text(key: RequestKey | None) -> str | None:
    return None if key is None else json.dumps(key_written(key))


def _key_of(text: str | None) -> RequestKey | None:
    if text is None:
        return None
    fields = json.loads(text)
    return KINDS[fields.pop("type")](**fields)


def _provider(row: rows.Row) -> Provider:
    domain, most, period, key, *_ = row
    return Provider(domain, most, timedelta(microseconds=period), _key_of(key))
