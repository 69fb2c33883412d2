"""Access: API keys, sessions, the commands that end access, refused credentials, and repeated requests."""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.access import OF_A_KEY, AccessEnding, Admission, Caller, Role
from ostinato.core.errors import Invalid, NotFound, StoreError, Unauthorized
from ostinato.core.model import Chance, Event
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.store.access import ALL, KeyRow, NewSession
from ostinato.store.store import Store

CLOCKS_DIFFER: Final = timedelta(seconds=5)  # by which the clock of a token's issuer may be ahead of ours
LONGEST_END: Final = timedelta(days=367)  # of a token: the maximum of auth_lifetime, and a margin


@dataclass(frozen=True, slots=True)
class Refused:
    """Refused credentials of one address: the first reason, and their number."""

    address: str
    reason: str
    count: int


class AccessService:
    """Commands that end access, and the check for ended tokens."""

    def __init__(self, store: Store, clock: Clock, chance: Chance) -> None:
        self._store, self._clock, self._chance = store, clock, chance

    def require_not_barred(self, admission: Admission) -> None:
        """Raise Unauthorized if the token was ended."""
        if self._store.access.bars(admission):
            raise Unauthorized("Access with this token was ended: use a new token.")

    def end_token(self, credential: str, until: datetime | None, *, by: str = "") -> AccessEnding:
        """End one token, by its id. `until`: when it expires; None: store the ending for ever."""
        return self._end(credential, until, by, timedelta(0))

    def end_name(self, name: str, *, by: str = "") -> AccessEnding:
        """End every token of a name that was issued until now."""
        if name.startswith(OF_A_KEY):
            raise NotFound("No token has such a name: an API key is ended by its id (ostinato key list).")
        if not (name.strip() and name.isprintable()):
            raise NotFound("No token has such a name: it has printable characters.")
        return self._end(f"name:{name}", self._clock.now() + LONGEST_END, by)

    def end_key(self, key_id: UUID, *, by: str = "") -> AccessEnding:
        """Revoke a key; its sessions end."""
        return self._end(f"{OF_A_KEY}{key_id}", None, by, timedelta(0))

    def end_all(self, *, by: str = "") -> AccessEnding:
        """End every token that was issued until now, every key and every session."""
        return self._end(ALL, self._clock.now() + LONGEST_END, by)

    def tell_refused(self, refused: Sequence[Refused]) -> None:
        """Store an event for each address."""
        now = self._clock.now()
        self._store.history.tell(
            [Event(self._chance.id(now), now, "access.refused", data=json.dumps(asdict(each))) for each in refused]
        )

    def _end(self, what: str, until: datetime | None, by: str, margin: timedelta = CLOCKS_DIFFER) -> AccessEnding:
        now = self._clock.now()
        return self._store.access.end(what, now + margin, until, now, by)


# -- API keys: `prefix.secret`. The text is shown once; the database stores its hash

KEY: Final = re.compile(r"(?P<prefix>ost_[a-z2-7]{10})\.(?P<secret>[A-Za-z0-9_-]{43})")
PREFIX: Final = "ost_"
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
NOTED_EVERY: Final = timedelta(minutes=1)
LONGEST_NAME: Final = 100
LONGEST_KEY_LIFE: Final = timedelta(days=36_525)
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
        if expires_in is not None and expires_in > LONGEST_KEY_LIFE:
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


# -- Sessions of the dashboard: a session ends with its credential, at log-out, or after half a day

LONGEST_SESSION: Final = timedelta(hours=12)


class SessionService:
    """Commands and checks of sessions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, admission: Admission) -> str:
        """Begin a session for a checked credential; return the text of its cookie."""
        text, now = secrets.token_urlsafe(32), self._clock.now()
        ends = now + LONGEST_SESSION if admission.until is None else min(admission.until, now + LONGEST_SESSION)
        self._store.sessions.add(NewSession(_hash_of_cookie(text), admission, now, ends))
        return text

    def recognise(self, text: str, signer: str) -> Admission:
        """Check a session; Unauthorized when it is over. `signer`: the key that verifies tokens today."""
        admission = self._store.sessions.find(_hash_of_cookie(text), signer, self._clock.now())
        if admission is None:
            raise Unauthorized("The session is over: log in again.")
        return admission

    def end(self, text: str) -> None:
        """Log out."""
        self._store.sessions.remove(_hash_of_cookie(text))


def _hash_of_cookie(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# -- Idempotent requests: a repeat is not carried out, and gets the answer of the first


class Repeats:
    """The stored answers to requests with an idempotency key."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, asked: RepeatableRequest) -> Answered | None:
        """Return the answer to a repeat; None for a new request: carry it out, then `finish` or `drop`."""
        return self._store.answers.begin(asked, self._clock.now())

    def finish(self, asked: RepeatableRequest, answered: Answered) -> None:
        self._store.answers.finish(asked, answered)

    def drop(self, asked: RepeatableRequest) -> None:
        self._store.answers.drop(asked)
