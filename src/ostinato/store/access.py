"""Ended access: barred tokens, and the keys and sessions that end with them."""

import json
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

from ostinato.core.access import OF_A_KEY, AccessEnding, Admission
from ostinato.core.model import Chance, Event
from ostinato.store import rows
from ostinato.store.database import Database, Tx
from ostinato.store.keys import Keys

ALL = "all"


class Access:
    """Table of barred tokens. Each ending is one transaction."""

    def __init__(self, database: Database, keys: Keys, chance: Chance) -> None:
        self._database, self._keys, self._chance = database, keys, chance

    def bars(self, admission: Admission) -> bool:
        """Return True if a token was ended."""
        token, name, issued_at = admission.credential, f"name:{admission.caller.name}", admission.issued_at
        with self._database.read() as tx:
            return tx.row("bars", token=token, name=name, issued_at=issued_at) is not None

    def end(self, what: str, since: datetime, until: datetime | None, now: datetime, by: str) -> AccessEnding:
        """End a key, a token, the tokens of a name, or all of them; their sessions end too. Safe to repeat."""
        with self._database.write() as tx:
            if not what.startswith(OF_A_KEY):
                tx.run("bar", what=what, since=since, until=until, by=by)
            keys = self._revoke(tx, what, now, by)
            ended = AccessEnding(what, since, keys, tx.run("delete_sessions_of", what=what))
            self._tell(tx, ended, now, by)
        return ended

    def forget(self, now: datetime) -> None:
        """Remove rows that no token can match any more."""
        with self._database.write() as tx:
            tx.run("delete_old_bars", now=now)

    def _revoke(self, tx: Tx, what: str, now: datetime, by: str) -> int:
        if what == ALL:
            tx.row("lock_to_revoke_keys")
            return tx.run("revoke_keys", now=now, by=by)
        if what.startswith(OF_A_KEY):
            return self._keys.revoke_in(tx, UUID(what.removeprefix(OF_A_KEY)), now, by)[1]
        return 0

    def _tell(self, tx: Tx, ended: AccessEnding, at: datetime, by: str) -> None:
        data = json.dumps({**asdict(ended), "since": ended.since.isoformat()})
        event = Event(self._chance.id(at), at, "access.ended", by=by, data=data)
        tx.run("insert_events", [rows.EVENT.row(event)])
