"""The sweeper: settles as lost what nobody keeps any more, and takes away old history.

A lease is judged by two clocks: it has expired on the database's, and this process has itself seen the row
unchanged for half a lease on its own monotonic one. A database that comes back after an absence, or a clock that
jumps, takes nobody's work: whoever did not look for half a lease (because nobody answered) has seen nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.ids import EPOCH
from ostinato.core.model import Chance, Change
from ostinato.store.firing import FIRST_ID
from ostinato.store.history import Keep
from ostinato.store.store import Store
from ostinato.store.workers import LeaseSeen
from ostinato.telemetry.reports import Telemetry


@dataclass(frozen=True, slots=True)
class Sighting:
    """A renewal, and when it was first seen on our own clock."""

    renewed_at: datetime
    since: float


class Sweeper:
    """Any number of them may work on one database. To be called at least every `look_every`."""

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
        """Settle the work of workers that have gone."""
        changes: list[Change] = []
        for lease in self._gone(self._store.workers.leases()):
            changes += self._store.workers.close_lost(lease, self._clock.now())
            self._telemetry.worker_lost(lease.worker_id)
        changes += self._store.workers.settle_leftovers(self._clock.now())
        changes += self._store.queue.time_out_runs(self._clock.now())
        self._telemetry.changed(changes)
        return changes

    def tidy(self) -> None:
        """A little of what retention asks for: called again and again, it comes round to every job."""
        now, history = self._clock.now(), self._store.history
        settled = self._store.clock_record.settled(now)
        history.remove_deleted()
        self._pruned_to = history.prune(self._pruned_to, now if settled else EPOCH, self._keep) or FIRST_ID
        self._logs_seen_to = self._store.logs.remove_orphans(self._logs_seen_to) or FIRST_ID
        if settled:
            self._forget(now)

    def _forget(self, now: datetime) -> None:
        """Take away what is only old: not on a clock that has just jumped."""
        self._store.queue.forget_limits(now)
        self._store.hours.keep(now)
        self._store.providers.forget(now)
        self._store.crawls.forget_hosts(now)
        self._store.access.forget(now)
        self._store.workers.forget_tasks(now)
        oldest = now - timedelta(days=self._keep.days)
        self._store.history.prune_events(now, self._keep, self._chance.id(oldest))

    def _gone(self, leases: list[LeaseSeen]) -> list[LeaseSeen]:
        now, at = self._clock.now(), self._clock.monotonic()
        known = self._seen if at - self._looked_at <= self._patience else {}
        self._seen, self._looked_at = {}, at
        gone = []
        for lease in leases:
            sighting = known.get(lease.worker_id)
            if sighting is None or sighting.renewed_at != lease.renewed_at:
                sighting = Sighting(lease.renewed_at, at)
            self._seen[lease.worker_id] = sighting
            if _expired(lease, now) and at - sighting.since >= self._patience:
                gone.append(lease)
        return gone


def _expired(lease: LeaseSeen, now: datetime) -> bool:
    """One that was renewed in the future was renewed by a clock that has been set back since."""
    return lease.lease_until < now or lease.renewed_at > now
