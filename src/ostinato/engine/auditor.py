"""The auditor at work: every worker audits some jobs at each sweep, again and again.

A flaw counts only when it is still there at the next sweep. Then it is an event (once a day for each job and kind of
flaw, whichever worker finds it), a log line and a metric.
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
from ostinato.core.model import Chance, Event
from ostinato.store.firing import FIRST_ID
from ostinato.store.store import Store
from ostinato.telemetry.reports import Telemetry

SLICE: Final = 0.02  # seconds of work in a sweep
JOBS: Final = 10  # in one snapshot
ROWS: Final = 1000  # executions in one snapshot, unless a single job has more: about 9 ms of work
AGAIN: Final = timedelta(days=1)  # a flaw that is still there is told once more
MOST_SUSPECTS: Final = 100  # jobs that are looked at a second time in one sweep

log = logging.getLogger("ostinato.engine")

Seen = tuple[UUID | None, FlawKind]


class Auditor:
    """Goes round all jobs, a slice at a time. Any number of them may work on one database."""

    def __init__(self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry) -> None:
        self._store, self._clock = store, clock
        self._chance, self._telemetry = chance, telemetry
        self._after = FIRST_ID
        self._suspects: dict[Seen, AuditFlaw] = {}
        self._known: set[Seen] = set()  # told by this process, and still there when it came round last
        self._this_round: set[Seen] = set()

    def step(self) -> list[AuditFlaw]:
        """Audit a slice; return the flaws that this process has seen twice for the first time.

        A bug of the auditor costs a log line and this slice: the engine works on.
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
        self._tell(confirmed)
        return new

    def _second_look(self) -> list[AuditFlaw]:
        suspects = [job_id for job_id, _ in self._suspects if job_id is not None]
        ids = list(dict.fromkeys(suspects))[:MOST_SUSPECTS]
        still = {_seen(flaw): flaw for flaw in self._store.audit.of(ids, self._clock.now())}
        there = still.keys() & self._suspects.keys()
        self._this_round |= there
        return [still[seen] for seen in still if seen in there]

    def _slice(self) -> Iterable[AuditFlaw]:
        """Audit until the time is used up, or all jobs have had their turn."""
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

    def _tell(self, flaws: list[AuditFlaw]) -> None:
        """Write an event for each flaw without one of the last day."""
        if not flaws:
            return
        now = self._clock.now()
        told = self._store.audit.told_since(now - AGAIN, [flaw.job_id for flaw in flaws if flaw.job_id])
        events = [
            Event(self._chance.id(now), now, "audit.flaw", flaw.job_id, data=_data(flaw))
            for flaw in flaws
            if _seen(flaw) not in told
        ]
        if events:
            self._store.history.tell(events)


def _seen(flaw: AuditFlaw) -> Seen:
    """Return the identity of a flaw; its words may contain other figures the next time."""
    return flaw.job_id, flaw.kind


def _data(flaw: AuditFlaw) -> str:
    return json.dumps({"flaw": flaw.kind.value, "told": flaw.told})
