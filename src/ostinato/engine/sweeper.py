"""The sweeper: it settles executions of dead workers as lost, removes old history, and audits some jobs.

Two clocks judge a lease. It has expired on the database's clock, and this process has itself seen the row unchanged for
half a lease on its own monotonic clock. So no work is taken away after the database was unavailable or a clock has
jumped: a sweeper that got no answer for half a lease has seen nothing.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.audit import AuditFlaw, FlawKind
from ostinato.core.errors import StoreError
from ostinato.core.model import EPOCH, FIRST_ID, Chance, Change, Event
from ostinato.store.history import Keep
from ostinato.store.kernel import Kernel
from ostinato.store.store import Store
from ostinato.store.workers import LeaseSeen
from ostinato.telemetry.reports import Telemetry


@dataclass(frozen=True, slots=True)
class _Sighting:
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
        self._seen: dict[UUID, _Sighting] = {}
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
                sighting = _Sighting(lease.renewed_at, at)
            self._seen[lease.worker_id] = sighting
            if _expired(lease, now) and at - sighting.since >= self._patience:
                expired.append(lease)
        return expired


def _expired(lease: LeaseSeen, now: datetime) -> bool:
    """Return True if a lease has expired. A renewal in the future came from a clock that was set back since."""
    return lease.lease_until < now or lease.renewed_at > now


# -- The auditor: every worker audits some jobs at each sweep.
#
# A flaw counts only if the next sweep finds it again. It then becomes an event (once a day for each job and kind of
# flaw,
# across all workers), a log line and a metric.

SLICE: Final = 0.02  # seconds of work per sweep
JOBS: Final = 10  # jobs in one snapshot
ROWS: Final = 1000  # executions in one snapshot (about 9 ms of work); a single job may have more
AGAIN: Final = timedelta(days=1)  # a flaw that persists is reported again after this
MOST_SUSPECTS: Final = 100  # jobs audited a second time in one sweep

log = logging.getLogger("ostinato.engine")

Seen = tuple[UUID | None, FlawKind]


class Auditor:
    """Audit of all jobs, a slice at a time. Several auditors may work on one database."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry) -> None:
        self._store, self._clock = store, clock
        self._chance, self._telemetry = chance, telemetry
        self._after = FIRST_ID
        self._suspects: dict[Seen, AuditFlaw] = {}
        self._known: set[Seen] = set()  # reported by this process, and found again in its last round
        self._this_round: set[Seen] = set()

    def step(self) -> list[AuditFlaw]:
        """Audit a slice; return the flaws that this process has now confirmed for the first time.

        A bug in the auditor costs a log line and this slice; the engine keeps working.
        """
        try:
            return self._step()
        except StoreError:
            raise
        except Exception:
            log.exception("The auditor failed")
            return []

    def _step(self) -> list[AuditFlaw]:
        confirmed = self._second_look()
        new = [flaw for flaw in confirmed if _seen(flaw) not in self._known]
        self._known |= {_seen(flaw) for flaw in confirmed}
        self._suspects = {_seen(flaw): flaw for flaw in self._slice()}
        for flaw in new:
            self._telemetry.flaw_found(flaw)
        self._report(confirmed)
        return new

    def _second_look(self) -> list[AuditFlaw]:
        suspects = [job_id for job_id, _ in self._suspects if job_id is not None]
        ids = list(dict.fromkeys(suspects))[:MOST_SUSPECTS]
        still = {_seen(flaw): flaw for flaw in self._store.audit.of(ids, self._clock.now())}
        there = still.keys() & self._suspects.keys()
        self._this_round |= there
        return [still[seen] for seen in still if seen in there]

    def _slice(self) -> Iterable[AuditFlaw]:
        """Audit until the time is used up or the round of all jobs is complete."""
        begun, found, whole_round = self._clock.monotonic(), list[AuditFlaw](), False
        while not whole_round and self._clock.monotonic() - begun < SLICE:
            page = self._store.audit.page(self._after, self._clock.now(), JOBS, ROWS)
            found += page.flaws
            whole_round = page.last is None
            self._after = page.last or FIRST_ID
        if whole_round:
            self._known &= self._this_round | {_seen(flaw) for flaw in found}
            self._this_round = set()
        return found

    def _report(self, flaws: list[AuditFlaw]) -> None:
        """Write an event for each flaw that has none within the last day."""
        if not flaws:
            return
        now = self._clock.now()
        reported = self._store.audit.reported_since(now - AGAIN, [flaw.job_id for flaw in flaws if flaw.job_id])
        events = [
            Event(self._chance.id(now), now, "audit.flaw", flaw.job_id, data=_data(flaw))
            for flaw in flaws
            if _seen(flaw) not in reported
        ]
        if events:
            self._store.history.tell(events)


def _seen(flaw: AuditFlaw) -> Seen:
    """Return the identity of a flaw; the figures in its text may change."""
    return flaw.job_id, flaw.kind


def _data(flaw: AuditFlaw) -> str:
    return json.dumps({"flaw": flaw.kind.value, "sentence": flaw.sentence})
