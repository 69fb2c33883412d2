"""API keys, sessions, ended access, and answers for repeated requests."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.access import OF_A_KEY, AccessEnding, Admission, Caller, Role
from ostinato.core.errors import Conflict, NotFound
from ostinato.core.model import Chance, Event
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.store import rows
from ostinato.store.clock_record import forgettable
from ostinato.store.database import Database, Row, Tx
from ostinato.store.rows import from_micros

# -- API keys as rows: a prefix to find each by, and a hash to verify it

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


# -- Ended access: barred tokens, and the keys and sessions that end with them

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


# -- Sessions of the dashboard, found by a hash of their cookie


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


# -- Answers stored for a day, so that a repeated request (Idempotency-Key) gets the same one.
#
# A key is taken before the request is carried out and gets its answer after; both are visible to every process. If a
# process dies in between, the outcome is unknown: after a minute a repeat carries the request out (again).

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
