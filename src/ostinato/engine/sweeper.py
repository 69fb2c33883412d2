"""The sweeper: it settles executions of dead workers as lost and removes old history.

Two clocks judge a lease. It has expired on the database's clock, and this process has itself seen the row unchanged for
half a lease on its own monotonic clock. So no work is taken away after the database was unavailable or a clock has
jumped: a sweeper that got no answer for half a lease has seen nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.ids import EPOCH, FIRST_ID
from ostinato.core.model import Chance, Change
from ostinato.store.history import Keep
from ostinato.store.kernel import Kernel
from ostinato.store.store import Store
from ostinato.store.workers import LeaseSeen
from ostinato.telemetry.reports import Telemetry


@dataclass(frozen=True, slots=True)
class Sighting:
    """A renewal, and when this process first saw it on its monotonic clock."""

    renewed_at: datetime
    since: float


class Sweeper:
    """The step that sweeps. Several sweepers may work on one database. Call it at least every `look_every`."""

    def __init__(
        self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry, lease: timedelta, keep: Keep
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._telemetry = telemetry
        self._patience = lease.total_seconds() / 2
        self._keep = keep
        self._seen: dict[UUID, Sighting] = {}
        self._looked_at = float("-inf")
        self._pruned_to = self._logs_seen_to = FIRST_ID
        self.look_every = lease / 4

    def step(self) -> list[Change]:
        """Settle the work of dead workers as lost."""
        changes: list[Change] = []
        for lease in self._expired_leases(self._store.workers.leases()):
            changes += self._store.workers.close_lost(lease, self._clock.now())
            self._telemetry.worker_lost(lease.worker_id)
        changes += self._store.workers.settle_leftovers(self._clock.now())
        changes += self._store.queue.time_out_runs(self._clock.now())
        self._telemetry.changed(changes)
        return changes

    def tidy(self) -> None:
        """Apply a part of retention; repeated calls reach every job."""
        now, history = self._clock.now(), self._store.history
        settled = self._store.clock_record.settled(now)
        history.remove_deleted()
        self._pruned_to = history.prune(self._pruned_to, now if settled else EPOCH, self._keep) or FIRST_ID
        self._logs_seen_to = self._store.logs.remove_orphans(self._logs_seen_to) or FIRST_ID
        if settled:
            self._forget(now)

    def _forget(self, now: datetime) -> None:
        """Delete rows that are only old, unless the clock has just jumped."""
        self._store.queue.forget_limits(now)
        self._store.hours.keep(now)
        self._store.deferrals.forget()
        self._store.access.forget(now)
        self._store.workers.forget_tasks(now)
        oldest = now - timedelta(days=self._keep.days)
        self._store.history.prune_events(now, self._keep, self._chance.id(oldest))
        kernel = Kernel(self._store, self._clock, self._chance)
        for module in self._store.awake("tidy"):
            module.tidy(kernel, now)

    def _expired_leases(self, leases: list[LeaseSeen]) -> list[LeaseSeen]:
        now, at = self._clock.now(), self._clock.monotonic()
        known = self._seen if at - self._looked_at <= self._patience else {}
        self._seen, self._looked_at = {}, at
        expired = []
        for lease in leases:
            sighting = known.get(lease.worker_id)
            if sighting is None or sighting.renewed_at != lease.renewed_at:
                sighting = Sighting(lease.renewed_at, at)
            self._seen[lease.worker_id] = sighting
            if _expired(lease, now) and at - sighting.since >= self._patience:
                expired.append(lease)
        return expired


def _expired(lease: LeaseSeen, now: datetime) -> bool:
    """Return True if a lease has expired. A renewal in the future came from a clock that was set back since."""
    return lease.lease_until < now or lease.renewed_at > now
