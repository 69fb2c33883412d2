"""API keys as rows: a prefix to find each by, and a hash to verify it."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from ostinato.core.access import Role
from ostinato.core.errors import NotFound
from ostinato.core.model import Chance, Event
from ostinato.store import rows
from ostinato.store.database import Database, Tx

NOTE_WITHIN: Final = 1.0  # seconds: the note of a use may be skipped


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key without its secret, which only its holder has."""

    id: UUID
    prefix: str
    hash: str = field(repr=False)
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str


KEY: Final = rows.Shape(KeyRow)


class Keys:
    """Table of API keys."""

    def __init__(self, database: Database, chance: Chance) -> None:
        self._database, self._chance = database, chance

    def add(self, key: KeyRow) -> None:
        with self._database.write() as tx:
            tx.row("lock_to_make_a_key")
            tx.run(
                "insert_key", id=key.id, prefix=key.prefix, hash=key.hash, name=key.name, role=key.role,
                now=key.created_at, by=key.created_by, expires_at=key.expires_at,
            )  # fmt: skip
            self._tell(tx, "key.created", key, key.created_at, key.created_by)

    def find(self, prefix: str) -> KeyRow | None:
        with self._database.read() as tx:
            row = tx.row("key_by_prefix", prefix=prefix)
        return None if row is None else KEY.of(row)

    def page(self, limit: int, before: UUID | None = None) -> list[KeyRow]:
        """Return a page of keys, the newest first."""
        with self._database.read() as tx:
            return [KEY.of(row) for row in tx.rows("list_keys", limit=limit, before=before)]

    def revoke(self, key_id: UUID, now: datetime, by: str) -> KeyRow:
        """Revoke a key; it stops working with this commit. Safe to repeat."""
        with self._database.write() as tx:
            return self.revoke_in(tx, key_id, now, by)[0]

    def revoke_in(self, tx: Tx, key_id: UUID, now: datetime, by: str) -> tuple[KeyRow, int]:
        """Revoke a key in an open transaction; return it, and 1 if it was valid before."""
        revoked = tx.run("revoke_key", id=key_id, now=now, by=by)
        row = tx.row("key_by_id", id=key_id)
        if row is None:
            raise NotFound(f"There is no key {key_id}.")
        key = KEY.of(row)
        if revoked:
            self._tell(tx, "key.revoked", key, now, by)
        return key, revoked

    def note_used(self, key_id: UUID, now: datetime) -> None:
        with self._database.write(NOTE_WITHIN) as tx:
            tx.run("note_key_used", id=key_id, now=now)

    def _tell(self, tx: Tx, kind: str, key: KeyRow, at: datetime, by: str) -> None:
        data = json.dumps({"key": str(key.id), "prefix": key.prefix, "name": key.name, "role": key.role})
        tx.run("insert_events", [rows.EVENT.row(Event(self._chance.id(at), at, kind, by=by, data=data))])
