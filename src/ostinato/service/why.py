"""The gathering of the records of an occurrence, for core/why to explain."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ostinato.core.model import Chance, Event, Execution, Job, Live, Status, WaitsFor
from ostinato.core.policy import Overlap
from ostinato.core.read_models import WorkerRow
from ostinato.core.why import Evidence, Presence, Why, explain, obstacle
from ostinato.core.why.explain import due_in, recorded_due, unrecorded_due
from ostinato.feature import Features
from ostinato.service.views import JobView
from ostinato.store.store import Store

SIGNS: Final = timedelta(seconds=15)  # an idle worker gives a sign of life every ten seconds
INSTANT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _Around:
    """The workers, the paused queues (since when, and by whom), and the features."""

    present: tuple[Presence, ...]
    paused: Mapping[str, tuple[datetime, str]]
    features: Features

    def evidence(self, job: Job, live: Live, now: datetime) -> Evidence:
        at, by = self.paused.get(live.queue, (None, ""))
        pause = None if at is None else Event(job.id, at, "queue.paused", by=by)
        install = self.features.install(live.task)
        return Evidence(job, Status.QUEUED, now, now, present=self.present, queue_paused=pause, install=install)


class Inquiry:
    """The reader of the evidence about one job."""

    def __init__(self, store: Store, chance: Chance) -> None:
        self._store, self._traces, self._chance = store, store.traces, chance
        self._features = store.database.features

    def why(self, view: JobView, at: datetime, now: datetime) -> Why:
        """Explain the occurrence at or before an instant; a future one as of now."""
        return explain(self._evidence(view, min(at, now), now))

    def obstacles(self, found: Sequence[tuple[Job, Live]], now: datetime) -> dict[UUID, str]:
        """Say what keeps each of these queued runs from starting; the number of queries is always the same."""
        if not found:
            return {}
        around = _Around(self._present(now, now), self._traces.paused_queues(), self._features)
        return {live.id: obstacle(around.evidence(job, live, now), live) for job, live in found}

    def _evidence(self, view: JobView, at: datetime, now: datetime) -> Evidence:
        attempts = self._attempts(view, at)
        skip = self._traces.skip_at(view.id, at)
        if attempts and skip and due_in(skip, view.job, at) > attempts[0].due_at:
            attempts = ()  # the question is about the newest due time
        elif attempts:
            skip = None
        found = Evidence(view.job, view.status, at, now, view.next_run_at, attempts, skip)
        found = replace(found, install=self._features.install(view.job.definition.task))
        return self._around(found)

    def _attempts(self, view: JobView, at: datetime) -> tuple[Execution | Live, ...]:
        """List all attempts at the newest occurrence that was due by then."""
        lives = [live for live in view.lives if live.due_at <= at and not live.step]
        newest = max(lives, key=lambda live: (live.due_at, live.number), default=None)
        number = self._traces.number_at(view.id, at)
        ended = [] if number is None else self._traces.attempts(view.id, number)
        if newest is None or (ended and (ended[0].due_at, ended[0].number) > (newest.due_at, newest.number)):
            chosen = number
        else:
            chosen = newest.number
            ended = ended if chosen == number else self._traces.attempts(view.id, chosen)
        return (*ended, *(live for live in lives if live.number == chosen))

    def _around(self, evidence: Evidence) -> Evidence:
        """Add the workers, pauses and other runs of that time."""
        recorded, unrecorded = recorded_due(evidence), unrecorded_due(evidence.job, evidence.at, evidence.now)
        if unrecorded is not None and (recorded is None or recorded < unrecorded):
            return self._before_it_is_queued(evidence, unrecorded)
        paused, resumed_at = self._queue_pause(evidence)
        until = evidence.skip.recorded_at if evidence.skip else evidence.now
        return replace(
            evidence,
            in_the_way=self._in_the_way(evidence),
            budget_of=self._budget_of(evidence),
            events=tuple(self._traces.steering(evidence.job.id, until)),
            present=self._present(recorded or evidence.at, evidence.now),
            queue_paused=paused,
            queue_resumed_at=resumed_at,
        )

    def _before_it_is_queued(self, evidence: Evidence, due: datetime) -> Evidence:
        lives = [attempt for attempt in evidence.attempts if isinstance(attempt, Live)]
        return replace(
            evidence,
            in_the_way=lives[-1] if lives else None,
            events=tuple(self._traces.steering(evidence.job.id, evidence.now)),
            present=self._present(due, evidence.now),
            queue_bound=self._traces.full_queue(evidence.job.definition.queue),
        )

    def _present(self, due: datetime, now: datetime) -> tuple[Presence, ...]:
        return tuple(_presence(row, now) for row in self._traces.workers(due - SIGNS))

    def _in_the_way(self, evidence: Evidence) -> Execution | Live | None:
        """Find the run that kept it waiting, or for which it was skipped."""
        if evidence.skip is not None:
            other = evidence.skip.in_the_way
            return None if other is None else self._store.history.find(other)
        if not evidence.attempts or evidence.job.policies.overlap is Overlap.ALLOW:
            return None
        last = evidence.attempts[-1]
        if isinstance(last, Live) and last.waits_for is WaitsFor.TURN:
            lives = self._store.history.live(10, job_id=last.job_id)
            return next((live for live in lives if live.number < last.number), None)
        started = last.started_at or evidence.now
        return self._traces.run_before(last.job_id, last.number, last.run_at, started)

    def _budget_of(self, evidence: Evidence) -> str | None:
        last = evidence.attempts[-1] if evidence.attempts else None
        if not isinstance(last, Live) or last.waits_for is not WaitsFor.TIME:
            return None
        return self._store.deferrals.budget_of(last.id, last.run_at)

    def _queue_pause(self, evidence: Evidence) -> tuple[Event | None, datetime | None]:
        """Find a pause of the queue while the last attempt waited, and its end."""
        if not evidence.attempts:
            return None, None
        last = evidence.attempts[-1]
        until = last.started_at or evidence.now
        events = [
            event
            for event in self._traces.queue_events(self._chance.id(until + INSTANT))
            if event.at <= until and json.loads(event.data).get("queue") == last.queue
        ]
        return _pause(events, max(last.queued_at, last.run_at))


def _pause(events: list[Event], since: datetime) -> tuple[Event | None, datetime | None]:
    """Find the pause among a queue's events, the newest first, that reached beyond an instant."""
    resumed_at: datetime | None = None
    for event in events:
        if event.kind == "queue.paused":
            return event, resumed_at
        if event.at <= since:
            return None, None
        resumed_at = event.at
    return None, None


def _presence(row: WorkerRow, now: datetime) -> Presence:
    if row.closed_at is not None:
        until = row.closed_at if row.closed_as == "stopped" else row.renewed_at
    else:
        until = now if row.lease_until > now else row.renewed_at
    return Presence(row.started_at, until, row.task_names, frozenset(json.loads(row.queues)))
