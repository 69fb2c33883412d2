"""A worker's right to what it runs.

The right is counted from the moment a renewal was *sent*: that is the earliest the database can have counted it
from. At 0.8 of the lease the worker stops trusting it, so that there is time to stop before anybody else begins.
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from ostinato.clock import Clock
from ostinato.store.store import Store
from ostinato.store.workers import NewWorker

TRUSTED_SHARE = 0.8


class Lease:
    """One worker row, joined, renewed and left. Used from the loop and from the renewing thread."""

    def __init__(self, store: Store, clock: Clock, length: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._length = length
        self._sent = float("-inf")
        self.worker_id: UUID | None = None
        self.closed = False
        self.drain = False

    @property
    def trusted(self) -> bool:
        """Whether this worker may start something, or write for what it runs."""
        held = self._clock.monotonic() - self._sent < TRUSTED_SHARE * self._length.total_seconds()
        return held and not self.closed and self.worker_id is not None

    def join(self, worker: NewWorker) -> None:
        """Come to work, under a new id."""
        sent = self._clock.monotonic()
        self._store.workers.join(worker, self._clock.now(), self._length)
        self._sent, self.worker_id, self.closed = sent, worker.id, False

    def renew(self, running: Callable[[], int]) -> None:
        """Keep the lease, or learn that it is gone."""
        if self.worker_id is None or self.closed:
            return
        sent = self._clock.monotonic()
        renewal = self._store.workers.renew(self.worker_id, self._clock.now(), self._length, running())
        if renewal is None:
            self.closed = True
        else:
            self._sent, self.drain = sent, renewal.drain
