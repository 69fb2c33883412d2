"""The run queue: due jobs are fired into it, workers claim from it, results settle its executions; its gates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.limits import LONGEST_WHILE, Admitted, passage
from ostinato.core.policy import Policies
from ostinato.store.claiming import Claiming
from ostinato.store.database import Database, Tx
from ostinato.store.firing import Firing, Following
from ostinato.store.locking import QueueDuty
from ostinato.store.rows import from_micros, to_micros, to_uuid
from ostinato.store.settling import Settling

# -- The gate of limits: an execution that waits for a place of its key is admitted when one is free

KEYS: Final = 100  # per transaction
ROWS: Final = 100  # per key


@dataclass(frozen=True, slots=True)
class _LimitRound:
    """The number of executions admitted, and the next time to look (None: after a notification)."""

    passed: int = 0
    next_at: datetime | None = None


class _Limiting(QueueDuty):
    """Limiting: the dispatcher admits executions that wait for a limit."""

    def let_through(self, now: datetime) -> _LimitRound:
        """Admit executions of every key with waiting ones. Without waiting executions it costs one query."""
        passed, after, times = 0, "", list[datetime]()
        while keys := self._keys(after):
            with self._database.write() as tx:
                for key in keys:
                    admitted = self._admit(tx, key, now)
                    passed += admitted.count
                    times += [] if admitted.next_at is None else [admitted.next_at]
                if passed:
                    tx.notify()
            after = keys[-1]
        if after:
            times += self._next_limited(now)
        return _LimitRound(passed, min(times, default=None))

    def forget_limits(self, now: datetime) -> int:
        """Delete keys that are no longer used."""
        with self._database.write() as tx:
            return tx.run("forget_limits", now=now)

    def _keys(self, after: str) -> list[str]:
        with self._database.read() as tx:
            return [key for (key,) in tx.rows("limited_keys", after_key=after, limit=KEYS)]

    def _admit(self, tx: Tx, key: str, now: datetime) -> Admitted:
        ((text,),) = tx.rows("lock_limit", key=key, now=now)
        waiting = tx.rows("waiting_for_limit", key=key, now=now, limit=ROWS)
        policies = self._policies(tx, waiting[0][1]) if waiting else None
        if policies is None:
            return Admitted(0, ())
        ((active,),) = tx.rows("active_of_limit", key=key)
        admitted = passage(policies, len(waiting), active, [from_micros(at) for at in json.loads(text)], now)
        if admitted.count:
            tx.run("let_through", ids=[live_id for live_id, _ in waiting[: admitted.count]])
            tx.touch(to_uuid(job_id) for _, job_id in waiting[: admitted.count])
        recent = _text(admitted.recent)
        if recent != text:
            tx.run("save_limit", key=key, recent=recent, until=now + LONGEST_WHILE)
        return admitted

    def _policies(self, tx: Tx, job_id: bytes) -> Policies | None:
        """Return the policies of the first waiting job; all jobs of a key share them unless one was edited."""
        found = self._definitions.of(tx, {job_id: 0}).get(job_id)
        return None if found is None else found.policies

    def _next_limited(self, now: datetime) -> list[datetime]:
        with self._database.read() as tx:
            row = tx.row("next_limited", now=now)
        return [] if row is None or row[0] is None else [from_micros(row[0])]


def _text(recent: Sequence[datetime]) -> str:
    return json.dumps([to_micros(at) for at in recent], separators=(",", ":"))


# -- The run queue: due jobs are fired into it, workers claim from it, and results settle its executions


class Queue(Firing, Following, _Limiting, Claiming, Settling):
    """Table of live executions, and the five duties that change it."""


# -- Live rows that wait for a budget of outgoing requests, and until when


class Deferrals:
    """Table of deferrals. A row whose execution waits no more, or for another time, counts no more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def budget_of(self, execution_id: UUID, until: datetime) -> str | None:
        """Return the budget for which a live row waits until then."""
        with self._database.read() as tx:
            row = tx.row("deferral_of", id=execution_id, until=until)
        return None if row is None else str(row[0])

    def forget(self) -> None:
        """Delete the deferrals of executions that have ended."""
        with self._database.write() as tx:
            tx.run("forget_deferrals")


def waiting_for_budgets(tx: Tx) -> dict[str, int]:
    """Count the live rows that wait for each budget."""
    return dict(tx.rows("waiting_for_budgets"))


def try_deferred(tx: Tx, budget: str, until: datetime) -> None:
    """Let the runs that wait for a changed budget try again at `until`."""
    if tx.run("try_deferred", budget=budget, until=until):
        tx.notify()
