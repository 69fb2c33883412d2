"""Commands that end access for a token, a name, a key, or for all; and events about refused credentials."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.access import OF_A_KEY, AccessEnding, Admission
from ostinato.core.errors import NotFound, Unauthorized
from ostinato.core.model import Chance, Event
from ostinato.store.access import ALL
from ostinato.store.store import Store

CLOCKS_DIFFER: Final = timedelta(seconds=5)  # by which the clock of a token's issuer may be ahead of ours
LONGEST_LIFE: Final = timedelta(days=367)  # of a token: the maximum of auth_lifetime, and a margin


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
        return self._end(f"name:{name}", self._clock.now() + LONGEST_LIFE, by)

    def end_key(self, key_id: UUID, *, by: str = "") -> AccessEnding:
        """Revoke a key; its sessions end."""
        return self._end(f"{OF_A_KEY}{key_id}", None, by, timedelta(0))

    def end_all(self, *, by: str = "") -> AccessEnding:
        """End every token that was issued until now, every key and every session."""
        return self._end(ALL, self._clock.now() + LONGEST_LIFE, by)

    def tell_refused(self, refused: Sequence[Refused]) -> None:
        """Store an event for each address."""
        now = self._clock.now()
        self._store.history.tell(
            [Event(self._chance.id(now), now, "access.refused", data=json.dumps(asdict(each))) for each in refused]
        )

    def _end(self, what: str, until: datetime | None, by: str, margin: timedelta = CLOCKS_DIFFER) -> AccessEnding:
        now = self._clock.now()
        return self._store.access.end(what, now + margin, until, now, by)
