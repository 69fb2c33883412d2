"""Budgets of hosts: who may be asked how often, what was taken, and who waits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ostinato.core.auth import Bearer, InHeader, InQuery
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Chance, Event
from ostinato.core.providers import KNOWN_WITHIN, Key, Passage, Provider, batch_of, counts_until, opening
from ostinato.store import rows
from ostinato.store.adapt import from_micros
from ostinato.store.database import Database, Tx

MICROSECOND: Final = timedelta(microseconds=1)
LONGEST_HOLD: Final = timedelta(minutes=15)
LOOKED_AT: Final = 10_000  # passages, to say when a budget opens
KINDS: Final[Mapping[str, type[Key]]] = {"bearer": Bearer, "header": InHeader, "query": InQuery}


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider, who said so, how much of its budget is used now, and who waits for it."""

    provider: Provider
    saved_at: datetime
    saved_by: str
    used: int = 0
    waiting: int = 0

    @property
    def left(self) -> int:
        return max(self.provider.limit - self.used, 0)


@dataclass(frozen=True, slots=True)
class BudgetSpending:
    """A batch of leaves that is over: so many were used, the last was answered then."""

    id: UUID
    domain: str
    used: int
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class BudgetTaken:
    """Leave for `count` requests under this id; with none, there may be some at `opens_at`."""

    id: UUID
    count: int
    opens_at: datetime | None = None


class Providers:
    """The tables of providers and of what was taken from their budgets."""

    def __init__(self, database: Database, chance: Chance) -> None:
        self._database, self._chance = database, chance

    # -- what people say

    def save(self, provider: Provider, now: datetime, by: str, *, new: bool = False) -> bool:
        """From its return on every take holds to it. Whether it was not there before; Conflict if that was asked."""
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
                self._try_deferred(tx, provider.domain, now)
        return before is None

    def delete(self, domain: str, now: datetime, by: str) -> None:
        with self._database.write() as tx:
            if not tx.run("delete_provider", domain=domain):
                raise NotFound(f"There is no provider {domain}.")
            self._tell(tx, "provider.deleted", domain, now, by)
            self._try_deferred(tx, domain, now)

    def all(self) -> list[Provider]:
        with self._database.read() as tx:
            return [_provider(row) for row in tx.rows("list_providers")]

    def standing(self, now: datetime) -> list[ProviderRow]:
        """All of them, with how much is used and who waits."""
        with self._database.read() as tx:
            found = [
                ProviderRow(_provider(row), from_micros(row[4]), row[5]) for row in tx.rows("list_providers")
            ]
            used: dict[str, int] = dict(tx.rows("used_of_budgets", now=now) if found else ())
            waiting: dict[str, int] = dict(tx.rows("waiting_for_budgets") if found else ())
        return [
            replace(row, used=used.get(row.provider.domain, 0), waiting=waiting.get(row.provider.domain, 0))
            for row in found
        ]

    # -- taking

    def take(
        self, domain: str, want: int, now: datetime, hold: timedelta, over: Sequence[BudgetSpending] = ()
    ) -> BudgetTaken | None:
        """Leave for at least one of `want` requests, if there is any; None where nobody counts any more.

        It is committed before it returns: who dies with it has spent it. `over` are batches that have been answered.
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
        """Batches that have been answered: from then on they only grow old."""
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
                [
                    (each.id, each.used, counts_until(each.answered_at, period), each.answered_at)
                    for each in used
                ],
            )
        if unused:
            tx.run("return_passages", ids=[each.id for each in unused])

    def _passages(self, tx: Tx, domain: str) -> list[Passage]:
        return [
            Passage(count, from_micros(taken_at), from_micros(until), answered_at is not None)
            for count, taken_at, until, answered_at in tx.rows(
                "list_passages", domain=domain, limit=LOOKED_AT
            )
        ]

    # -- who waits

    def deferred_by(self, execution_id: UUID, until: datetime) -> str | None:
        """For whose budget a live row waits until then."""
        with self._database.read() as tx:
            row = tx.row("deferral_of", id=execution_id, until=until)
        return None if row is None else str(row[0])

    def forget(self, now: datetime) -> None:
        """Delete requests that no longer count, and deferrals that are over."""
        with self._database.write() as tx:
            tx.run("forget_old_passages", now=now)
            tx.run("forget_deferrals")

    def _try_deferred(self, tx: Tx, domain: str, now: datetime) -> None:
        """Let runs that wait for a changed budget try again, once every process knows of the change."""
        if tx.run("try_deferred", domain=domain, until=now + KNOWN_WITHIN):
            tx.ring()

    def _tell(self, tx: Tx, kind: str, domain: str, at: datetime, by: str, **data: Any) -> None:
        text = json.dumps({"domain": domain, **data})
        tx.run("insert_events", [rows.EVENT.row(Event(self._chance.id(at), at, kind, by=by, data=text))])


def key_written(key: Key) -> dict[str, str]:
    """A key as people write it: with where its secret is."""
    (kind,) = (name for name, each in KINDS.items() if isinstance(key, each))
    return {"type": kind, **asdict(key)}


def _key_text(key: Key | None) -> str | None:
    return None if key is None else json.dumps(key_written(key))


def _key_of(text: str | None) -> Key | None:
    if text is None:
        return None
    told = json.loads(text)
    return KINDS[told.pop("type")](**told)


def _provider(row: rows.Row) -> Provider:
    domain, most, period, key, *_ = row
    return Provider(domain, most, timedelta(microseconds=period), _key_of(key))
