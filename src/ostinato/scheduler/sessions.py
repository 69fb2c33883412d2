"""Sessions of the dashboard: begun with a credential, over after half a day, with it, or on leaving."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.access import Caller
from ostinato.core.errors import Unauthorized
from ostinato.store.sessions import NewSession
from ostinato.store.store import Store

LONGEST: Final = timedelta(hours=12)


class SessionDesk:
    """Begins and ends sessions, and knows whose one is."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, caller: Caller, *, until: datetime | None = None, key_id: UUID | None = None) -> str:
        """What the cookie holds. `until` is when the credential expires, if it does."""
        text, now = secrets.token_urlsafe(32), self._clock.now()
        ends = now + LONGEST if until is None else min(until, now + LONGEST)
        self._store.sessions.add(NewSession(_hash(text), caller, key_id, now, ends))
        return text

    def recognise(self, text: str) -> Caller:
        """Whose session it is; Unauthorized when it is over."""
        caller = self._store.sessions.find(_hash(text), self._clock.now())
        if caller is None:
            raise Unauthorized("The session is over: log in again.")
        return caller

    def end(self, text: str) -> None:
        """Log out."""
        self._store.sessions.remove(_hash(text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
