"""A worker's right to the executions that it runs.

The lease is counted from the moment a renewal was *sent*: the database cannot have counted it from an earlier time. At
0.8 of the lease the worker stops trusting it, so that its runs can stop before another worker starts them.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.errors import DatabaseReplaced, StoreError
from ostinato.core.model import EPOCH
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker, Renewal

TRUSTED_SHARE: Final = 0.8
RETRY_AFTER: Final = 0.5  # seconds until a failed renewal is sent again
MOST_BUGS: Final = 5  # in a row; without renewals a worker cannot work

log = logging.getLogger("ostinato.engine")


@dataclass(frozen=True, slots=True)
class Held:
    """A worker's row as this worker knows it."""

    worker_id: UUID
    sent: float
    at_least: datetime = EPOCH  # a database without this renewal has lost commits
    drain: bool = False
    closed: bool = False


class Lease:
    """The lease of one worker. It is used from the loop and from the renewing thread.

    Its state is one value, always replaced whole: by the thread while the row is open, by the loop otherwise.
    """

    def __init__(self, store: Store, clock: Clock, length: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._length = length
        self._held: Held | None = None

    @property
    def worker_id(self) -> UUID | None:
        held = self._held
        return None if held is None else held.worker_id

    @property
    def closed(self) -> bool:
        """Return True if a renewal said that this worker's row is closed."""
        held = self._held
        return held is not None and held.closed

    @property
    def drain(self) -> bool:
        held = self._held
        return held is not None and held.drain

    @property
    def at_least(self) -> datetime:
        """The renewal that the database must have; if it is missing, the database was restored to an earlier state."""
        held = self._held
        return EPOCH if held is None else held.at_least

    @property
    def trusted(self) -> bool:
        """Return True if this worker may start runs and write for them."""
        held = self._held
        if held is None or held.closed:
            return False
        return self._clock.monotonic() - held.sent < TRUSTED_SHARE * self._length.total_seconds()

    def join(self, worker: NewWorker) -> None:
        """Register the worker under a new id."""
        sent, now = self._clock.monotonic(), self._clock.now()
        self._store.workers.join(worker, now, self._length)
        self._held = Held(worker.id, sent, now)

    def adopt(self, worker_id: UUID, sent: float) -> None:
        """Take over a row that a claim has made; `sent` is when the claim was sent."""
        self._held = Held(worker_id, sent)

    def renew(self, running: int) -> None:
        """Renew the lease, or note that the row is closed."""
        held = self._held
        if held is None or held.closed:
            return
        sent, now, at_least = self._clock.monotonic(), self._clock.now(), held.at_least
        self._held = held = replace(held, at_least=min(at_least, now))  # the answer may be lost
        renewal = self._store.workers.renew(held.worker_id, now, self._length, running, at_least)
        if isinstance(renewal, Renewal):
            renewed = Held(held.worker_id, sent, now, renewal.drain)
        else:
            renewed = replace(held, closed=True)
        if self._held is held:
            self._held = renewed

    def forget(self) -> None:
        """Forget the row, since it is closed."""
        self._held = None


class Renewing:
    """Thread that renews a lease: a task that blocks the loop must not lose it."""

    def __init__(
        self,
        lease: Lease,
        every: timedelta,
        running: Callable[[], int],
        wake: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`wake` is called when the worker may or must act; `fail` when the lease cannot be renewed at all."""
        self._lease, self._running, self._wake, self._fail = lease, running, wake, fail
        self._every = every.total_seconds()
        self._bugs = 0
        self._over = threading.Event()
        self._awake_until: float | None = monotonic() + self._every  # None: it waits for the database
        self._thread = threading.Thread(target=self._run, name="ostinato-lease", daemon=True)
        self._thread.start()

    def overdue(self) -> float:
        """Return the seconds since a renewal should have begun. A renewal that waits for the database is in time."""
        if not (self._thread.is_alive() or self._over.is_set()):
            return inf
        until = None if self._over.is_set() else self._awake_until
        return 0.0 if until is None else max(0.0, monotonic() - until)

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        wait = self._every
        while not self._over.wait(wait) and self._bugs < MOST_BUGS:
            self._awake_until = None
            wait = self._every if self._renew() else min(RETRY_AFTER, self._every)
            self._awake_until = monotonic() + wait

    def _renew(self) -> bool:
        was_trusted = self._lease.trusted
        try:
            self._lease.renew(self._running())
        except DatabaseReplaced as error:
            self._bugs = MOST_BUGS
            self._fail(error)
            return False
        except StoreError:
            return False  # the loops report that the store is unavailable
        except Exception as error:
            log.exception("The lease could not be renewed")
            self._bugs += 1
            if self._bugs == MOST_BUGS:
                self._fail(error)
            return False
        self._bugs = 0
        if self._lease.closed or (self._lease.trusted and not was_trusted):
            self._wake()
        return True
