"""The auditor: every worker audits some jobs at each sweep.

A flaw counts only if the next sweep finds it again. It then becomes an event (once a day for each job and kind of flaw,
across all workers), a log line and a metric.
"""

import json
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from ostinato.clock import Clock
from ostinato.core.audit import AuditFlaw, FlawKind
from ostinato.core.errors import StoreError
from ostinato.core.ids import FIRST_ID
from ostinato.core.model import Chance, Event
from ostinato.store.store import Store
from ostinato.telemetry.reports import Telemetry

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
    return json.dumps({"flaw": flaw.kind.value, "told": flaw.told})
