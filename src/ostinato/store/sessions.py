"""Sessions of the dashboard, found by a hash of their cookie."""

from dataclasses import dataclass, field
from datetime import datetime

from ostinato.core.access import Admission, Caller, Role
from ostinato.store.adapt import from_micros
from ostinato.store.database import Database


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to save: the credential that began it, and its end."""

    hash: str = field(repr=False)
    admission: Admission
    created_at: datetime
    expires_at: datetime


class Sessions:
    """Table of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, session: NewSession) -> None:
        """Save a session, and delete those that are over."""
        admission = session.admission
        with self._database.write() as tx:
            tx.run("delete_old_sessions", now=session.created_at)
            tx.run(
                "insert_session", hash=session.hash, name=admission.caller.name, role=admission.caller.role,
                key_id=admission.key_id, credential=admission.credential, signer=admission.signer,
                issued_at=admission.issued_at, now=session.created_at, until=session.expires_at,
            )  # fmt: skip

    def find(self, hash: str, signer: str, now: datetime) -> Admission | None:
        """Find a session that is valid now; None if it, or its credential, is not."""
        with self._database.read() as tx:
            row = tx.row("session_by_hash", hash=hash, signer=signer, now=now)
        if row is None:
            return None
        name, role, credential, until, issued_at, signer = row
        caller = Caller(name, Role(role))
        return Admission(caller, credential, from_micros(until), from_micros(issued_at), signer)

    def remove(self, hash: str) -> None:
        """Delete a session. Safe to repeat."""
        with self._database.write() as tx:
            tx.run("delete_session", hash=hash)
