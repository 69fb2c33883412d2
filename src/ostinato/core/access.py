"""Roles, callers, and the credentials that callers come with.

    viewer      reads
    operator    and controls: pause, resume, cancel, retry, run, restart, release, drain
    admin       and edits: creates, changes and deletes jobs, keys and hooks

The name of a caller is what `by` says in the events.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
OF_A_KEY: Final = "key:"
BEARER: Final = re.compile(r"bearer +(?P<credential>[!-~]+) *", re.IGNORECASE)
RESERVED: Final = frozenset({"anonymous", "declaration"})  # names that Ostinato itself uses in events


class Role(StrEnum):
    """Rights of a caller; each role includes those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, needed: "Role") -> bool:
        """Tell whether this role is enough where `needed` is required."""
        return RANK[self] >= RANK[needed]


RANK: Final = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Caller:
    """Name and role of the person or program that sent a request."""

    name: str
    role: Role


def trusted(by: Caller | str) -> Caller:
    """Return the caller; a plain name comes from Python or the database, where no credential is required."""
    return by if isinstance(by, Caller) else Caller(by, Role.ADMIN)


ANONYMOUS: Final = Caller("anonymous", Role.ADMIN)  # where no credential is required


@dataclass(frozen=True, slots=True)
class Admission:
    """Caller of a request, and the credential that proved it.

    `credential` is `key:UUID` or `token:` with 32 hex digits; it is empty where no credential is required.
    """

    caller: Caller
    credential: str = ""
    until: datetime | None = None  # when the credential expires, if it does
    issued_at: datetime = LONG_AGO  # of a token; one without `iat` counts as old
    signer: str = ""  # fingerprint of the key that verified a token

    @property
    def key_id(self) -> UUID | None:
        """Return the id of the API key; None for a token."""
        return UUID(self.credential.removeprefix(OF_A_KEY)) if self.credential.startswith(OF_A_KEY) else None


@dataclass(frozen=True, slots=True)
class AccessEnding:
    """Result of an ending: tokens issued until `since` are refused; counts of the keys and sessions that ended."""

    what: str  # key:UUID, token:HASH, name:NAME or all
    since: datetime
    keys: int
    sessions: int


def is_key(credential: str) -> bool:
    """Return True for an API key, False for a token: a key has one dot."""
    return credential.count(".") == 1


def is_reserved(name: str) -> bool:
    """Return True for a name that no token may carry: events would show a wrong caller."""
    plain = name.strip().lower()
    return plain.startswith(OF_A_KEY) or plain in RESERVED
