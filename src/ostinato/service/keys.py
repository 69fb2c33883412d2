"""API keys: `prefix.secret`. The text is shown once; the database stores its hash."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.access import OF_A_KEY, Admission, Caller, Role
from ostinato.core.errors import Invalid, StoreError, Unauthorized
from ostinato.core.model import Chance
from ostinato.store.keys import KeyRow
from ostinato.store.store import Store

KEY: Final = re.compile(r"(?P<prefix>ost_[a-z2-7]{10})\.(?P<secret>[A-Za-z0-9_-]{43})")
PREFIX: Final = "ost_"
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
NOTED_EVERY: Final = timedelta(minutes=1)
LONGEST_NAME: Final = 100
LONGEST_LIFE: Final = timedelta(days=36_525)
NOT_GOOD: Final = "The API key is invalid."  # one message for an unknown key and a wrong secret
PAGE_LIMIT: Final = 250


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key. Its text is shown now, and never again."""

    row: KeyRow
    text: str = field(repr=False)


class KeyService:
    """Commands and questions about API keys."""

    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._store, self._clock, self._chance = store, clock, chance
        self._noted: dict[UUID, datetime] = {}
        self._lock = Lock()

    def create(
        self,
        name: str,
        role: Role,
        expires_in: timedelta | None = None,
        *,
        by: str = "",
        check: Callable[[], object] = lambda: None,
    ) -> NewKey:
        """Create a key; without `expires_in` it does not expire.

        `check` raises Unauthorized if the access of the caller has ended meanwhile: then the key is revoked.
        """
        if not (name.strip() and len(name) <= LONGEST_NAME and name.isprintable()):
            raise Invalid(f"A key needs a name of at most {LONGEST_NAME} printable characters.")
        if expires_in is not None and expires_in <= timedelta(0):
            raise Invalid("expires_in must be longer than 0 s.")
        if expires_in is not None and expires_in > LONGEST_LIFE:
            raise Invalid("expires_in must be at most 100 years; leave it out for a key that does not expire.")
        now = self._clock.now()
        prefix = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(10))
        text = f"{prefix}.{secrets.token_urlsafe(32)}"
        expires_at = None if expires_in is None else now + expires_in
        row = KeyRow(
            self._chance.id(now), prefix, _hash(text), name, role, now, by, expires_at, None, None, ""
        )  # fmt: skip
        self._store.keys.add(row)
        try:
            check()
        except Unauthorized:  # the request was admitted before the ending, and must not outlive it
            self.revoke(row.id, by=by)
            raise
        return NewKey(row, text)

    def list(self, limit: int = PAGE_LIMIT, before: UUID | None = None) -> list[KeyRow]:
        """List the keys, the newest first, with the revoked and expired ones."""
        return self._store.keys.page(min(limit, PAGE_LIMIT), before)

    def revoke(self, key_id: UUID, *, by: str = "") -> KeyRow:
        """Revoke a key; it stops working at once."""
        return self._store.keys.revoke(key_id, self._clock.now(), by)

    def find(self, text: str) -> KeyRow:
        """Find the key of a text; Unauthorized if it is not valid now.

        Wrong keys have no limit: a secret of 256 bits cannot be guessed, and a limit would lock out valid keys.
        """
        given = KEY.fullmatch(text)
        if given is None:
            raise Unauthorized(NOT_GOOD)
        now = self._clock.now()
        row = _require_good(self._store.keys.find(given["prefix"]), text, now)
        self._note_used(row, now)
        return row

    def _note_used(self, row: KeyRow, now: datetime) -> None:
        """Store the last use of a key, at most once a minute; skip it if the database is busy."""
        with self._lock:
            last = self._noted.get(row.id, row.last_used_at)
            if last is not None and timedelta(0) <= now - last < NOTED_EVERY:
                return
            self._noted[row.id] = now
        try:
            self._store.keys.note_used(row.id, now)
        except StoreError:
            return


def admission_of(row: KeyRow) -> Admission:
    """Return the admission of a key. Callers of two keys with one name have different names."""
    caller = Caller(f"{OF_A_KEY}{row.name}~{row.prefix.removeprefix(PREFIX)[:4]}", row.role)
    return Admission(caller, f"{OF_A_KEY}{row.id}", row.expires_at)


def _require_good(row: KeyRow | None, text: str, now: datetime) -> KeyRow:
    if row is None or not hmac.compare_digest(row.hash, _hash(text)):
        raise Unauthorized(NOT_GOOD)
    if row.revoked_at is not None:
        raise Unauthorized("The API key was revoked.")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthorized("The API key has expired.")
    return row


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
