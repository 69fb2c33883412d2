"""Retries of duties, with growing pauses, until they succeed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ostinato.core.errors import DatabaseReplaced, StoreError, StoreUnavailable
from ostinato.core.payload import LogMessage
from ostinato.engine.lease import MOST_BUGS
from ostinato.telemetry.reports import Telemetry

T = TypeVar("T")

FIRST_RETRY: Final = 0.1  # seconds; doubles up to the last
LAST_RETRY: Final = 5.0
TELL_EVERY: Final = 60.0  # seconds between two log lines of a process that cannot start

log = logging.getLogger("ostinato.engine")


class Retrying:
    """Retries of duties while the database is unavailable."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._in_trouble: set[object] = set()

    async def until_done(self, duty: Callable[[], Awaitable[T]]) -> T:
        """Run a duty, with retries while the database is unavailable; raise any other failure that repeats too
        often."""
        this, wait, bugs = object(), FIRST_RETRY, 0
        while True:
            try:
                done = await duty()
            except DatabaseReplaced:
                raise
            except StoreError as error:
                self._in_trouble.add(this)
                self._telemetry.store_away(error)
            except Exception:
                log.exception("A duty of the engine failed")
                bugs += 1
                if bugs == MOST_BUGS:
                    raise
            else:
                self._over(this)
                return done
            await asyncio.sleep(wait)
            wait = min(2 * wait, LAST_RETRY)

    def _over(self, trouble: object) -> None:
        """Note that a duty works again; the store is available when no duty has trouble."""
        if trouble in self._in_trouble:
            self._in_trouble.discard(trouble)
            if not self._in_trouble:
                self._telemetry.store_back()


class StoreWait:
    """Wait of a process that starts while its database is unavailable: pauses, and a log line a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._pause = FIRST_RETRY
        self._since: float | None = None
        self._tell_at = monotonic()

    def away(self, error: StoreUnavailable) -> float:
        """Return the seconds until the next try; log the reason if the last line is a minute old."""
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        if now >= self._tell_at:
            self._tell_at = now + TELL_EVERY
            why, waited = str(error).partition("\n")[0], f"{now - self._since:.0f}s"
            log.error(LogMessage("Database unavailable; retrying until it answers", {"error": why, "waited": waited}))
        pause, self._pause = self._pause, min(2 * self._pause, LAST_RETRY)
        return pause

    def over(self) -> None:
        """Log that the database answers, if there was a wait."""
        if self._since is not None:
            log.info(LogMessage("Database available", {"waited": f"{self._monotonic() - self._since:.0f}s"}))


def until_available(duty: Callable[[], T]) -> T:
    """Run a duty in this thread, as soon as the database is available."""
    waiting = StoreWait()
    while True:
        try:
            done = duty()
        except StoreUnavailable as error:
            time.sleep(waiting.away(error))
        else:
            waiting.over()
            return done
