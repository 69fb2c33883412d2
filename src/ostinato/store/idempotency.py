"""Answers that are kept for a day, so that a request which comes again (Idempotency-Key) gets the same one.

A key is taken before the request is carried out and gets its answer after; both are known to every process. Should a
process die in between, nobody knows whether it was carried out: after a minute a repeat carries it out (again).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ostinato.core.errors import Conflict
from ostinato.store.clock_record import forgettable
from ostinato.store.database import Database, Row, Tx

KEPT: Final = timedelta(days=1)
STALE: Final = timedelta(minutes=1)
SWEPT: Final = 20  # old answers that go with each new key


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """A request that may come again: whose, under which key, and a hash of what it says."""

    caller: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The stored answer to a request."""

    status: int
    headers: str
    body: str


class Answers:
    """The table of kept answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, asked: RepeatableRequest, now: datetime) -> Answered | None:
        """The answer to a repeat; None: carry it out, the key is ours now.

        The same key with another request is a Conflict, and so is one that is being carried out right now.
        """
        with self._database.write() as tx:
            forgotten = forgettable(tx, now) - KEPT
            tx.run("delete_old_answers", forgotten=forgotten, limit=SWEPT)
            found = None if self._taken(tx, asked, now, forgotten) else self._found(tx, asked)
        if found is None:
            return None
        fingerprint, status, headers, body = found
        if fingerprint != asked.fingerprint:
            raise Conflict("This Idempotency-Key was used for another request; take a new one.")
        if status is None:
            raise Conflict("The first request with this Idempotency-Key is still being answered; try again.")
        return Answered(status, headers, body)

    def _taken(self, tx: Tx, asked: RepeatableRequest, now: datetime, forgotten: datetime) -> bool:
        caller, key, fingerprint = asked.caller, asked.key, asked.fingerprint
        if tx.run("begin_answer", caller=caller, key=key, fingerprint=fingerprint, now=now):
            return True
        oldest = {"forgotten": forgotten, "stale": now - STALE}
        return bool(
            tx.run(
                "take_over_answer", None, caller=caller, key=key, fingerprint=fingerprint, now=now, **oldest
            )
        )

    def _found(self, tx: Tx, asked: RepeatableRequest) -> Row | None:
        return tx.row("find_answer", caller=asked.caller, key=asked.key)

    def finish(self, asked: RepeatableRequest, answered: Answered) -> None:
        """Keep the answer."""
        with self._database.write() as tx:
            tx.run(
                "finish_answer",
                caller=asked.caller,
                key=asked.key,
                fingerprint=asked.fingerprint,
                code=answered.status,
                headers=answered.headers,
                body=answered.body,
            )

    def drop(self, asked: RepeatableRequest) -> None:
        """Nothing came of it: the key is free again."""
        with self._database.write() as tx:
            tx.run("drop_answer", caller=asked.caller, key=asked.key, fingerprint=asked.fingerprint)
