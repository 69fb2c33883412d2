"""Answers stored for a day, so that a repeated request (Idempotency-Key) gets the same one.

A key is taken before the request is carried out and gets its answer after; both are visible to every process. If a
process dies in between, the outcome is unknown: after a minute a repeat carries the request out (again).
"""

from datetime import datetime, timedelta
from typing import Final

from ostinato.core.errors import Conflict
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.store.clock_record import forgettable
from ostinato.store.database import Database, Row, Tx

KEPT: Final = timedelta(days=1)
STALE: Final = timedelta(minutes=1)
SWEPT: Final = 20  # old answers deleted with each new key


class Answers:
    """Table of stored answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, asked: RepeatableRequest, now: datetime) -> Answered | None:
        """Return the stored answer; None means: the key is taken, carry the request out.

        Raise Conflict if the key was used for another request, or if the request is being carried out right now.
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
            tx.run("take_over_answer", None, caller=caller, key=key, fingerprint=fingerprint, now=now, **oldest)
        )

    def _found(self, tx: Tx, asked: RepeatableRequest) -> Row | None:
        return tx.row("find_answer", caller=asked.caller, key=asked.key)

    def finish(self, asked: RepeatableRequest, answered: Answered) -> None:
        """Store the answer."""
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
        """Free the key: the request had no effect."""
        with self._database.write() as tx:
            tx.run("drop_answer", caller=asked.caller, key=asked.key, fingerprint=asked.fingerprint)
