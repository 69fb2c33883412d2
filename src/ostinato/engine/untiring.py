"""Duties that are tried again and again, later and later, until they are done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ostinato.core.errors import DatabaseReplaced, StoreError
from ostinato.engine.lease import MOST_BUGS
from ostinato.telemetry import Telemetry

T = TypeVar("T")

FIRST_RETRY: Final = 0.1  # seconds; doubles up to the last
LAST_RETRY: Final = 5.0

log = logging.getLogger("ostinato.engine")


class Untiring:
    """Does duties for which the database may be away."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._in_trouble: set[object] = set()

    async def until_done(self, duty: Callable[[], Awaitable[T]]) -> T:
        """Do a duty; if need be again and again. What fails in any other way too often is raised."""
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
        """The store is back when nobody has trouble with it any more."""
        if trouble in self._in_trouble:
            self._in_trouble.discard(trouble)
            if not self._in_trouble:
                self._telemetry.store_back()
