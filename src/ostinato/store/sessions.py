"""The sessions of the dashboard, known by a hash of their cookie."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from ostinato.core.access import Caller, Role
from ostinato.store.database import Database


@dataclass(frozen=True, slots=True)
class NewSession:
    """Who comes in, by which API key (if by one), and until when."""

    hash: str = field(repr=False)
    caller: Caller
    key_id: UUID | None
    created_at: datetime
    expires_at: datetime


class Sessions:
    """The table of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, session: NewSession) -> None:
        """Begin one; those that are over go."""
        with self._database.write() as tx:
            tx.run("delete_old_sessions", now=session.created_at)
            tx.run(
                "insert_session", hash=session.hash, name=session.caller.name, role=session.caller.role,
                key_id=session.key_id, now=session.created_at, until=session.expires_at,
            )  # fmt: skip

    def find(self, hash: str, now: datetime) -> Caller | None:
        """Whose it is; None when it is over, or its API key was revoked."""
        with self._database.read() as tx:
            row = tx.row("session_by_hash", hash=hash, now=now)
        return None if row is None else Caller(row[0], Role(row[1]))

    def remove(self, hash: str) -> None:
        """End one. Safe to repeat."""
        with self._database.write() as tx:
            tx.run("delete_session", hash=hash)
