"""Sessions of the dashboard: a session ends with its credential, at log-out, or after half a day."""

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from ostinato.clock import Clock
from ostinato.core.access import Admission
from ostinato.core.errors import Unauthorized
from ostinato.store.sessions import NewSession
from ostinato.store.store import Store

LONGEST_SESSION: Final = timedelta(hours=12)


class SessionService:
    """Commands and checks of sessions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def begin(self, admission: Admission) -> str:
        """Begin a session for a checked credential; return the text of its cookie."""
        text, now = secrets.token_urlsafe(32), self._clock.now()
        ends = now + LONGEST_SESSION if admission.until is None else min(admission.until, now + LONGEST_SESSION)
        self._store.sessions.add(NewSession(_hash(text), admission, now, ends))
        return text

    def recognise(self, text: str, signer: str) -> Admission:
        """Check a session; Unauthorized when it is over. `signer`: the key that verifies tokens today."""
        admission = self._store.sessions.find(_hash(text), signer, self._clock.now())
        if admission is None:
            raise Unauthorized("The session is over: log in again.")
        return admission

    def end(self, text: str) -> None:
        """Log out."""
        self._store.sessions.remove(_hash(text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
