"""One job under audit: its rows, the limits of its known past, and values derived from both."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol
from uuid import UUID

from ostinato.core.errors import NOT_READABLE
from ostinato.core.lifecycle.due_times import FIRED_AHEAD, FIRST_INSTANT, INSTANT
from ostinato.core.model import AskedBy, Event, Facts, Job, Live, Skip
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import Overlap
from ostinato.core.schedule import Cron, Every, is_recurring


class FlawKind(StrEnum):
    """The kind of a flaw: the label of the metric."""

    UNREADABLE = "unreadable"
    OFF_GRID = "off_grid"
    TWICE = "twice"
    NO_RECORD = "no_record"
    LAST_DUE = "last_due_at"
    NEXT_DUE = "next_due_at"
    STARTED_EARLY = "started_early"
    ENDED_EARLY = "ended_early"
    BUDGET = "budget"
    OVERLAP = "overlap"
    UNKNOWN_WORKER = "unknown_worker"
    WAITS = "waits"
    NUMBER = "number"
    COUNTER = "counter"
    ORPHAN = "orphan"


Found = Iterator[tuple[FlawKind, str]]


@dataclass(frozen=True, slots=True)
class AuditFlaw:
    """A contradiction between rows. `job_id` is None where a row belongs to no job."""

    kind: FlawKind
    job_id: UUID | None
    sentence: str


class EndedRun(Protocol):
    """The part of an Execution that an audit needs."""

    @property
    def number(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def execution_number(self) -> int: ...
    @property
    def asked(self) -> AskedBy: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def run_at(self) -> datetime: ...
    @property
    def queued_at(self) -> datetime: ...
    @property
    def started_at(self) -> datetime | None: ...
    @property
    def finished_at(self) -> datetime: ...
    @property
    def outcome(self) -> OutcomeKind: ...
    @property
    def version(self) -> int | None: ...
    @property
    def failures(self) -> int: ...
    @property
    def losses(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that retention removed: counts by result (and `skipped`), the latest due time and number."""

    counts: Mapping[str, int] = field(default_factory=dict)
    until: datetime = FIRST_INSTANT
    number: int = 0


@dataclass(frozen=True, slots=True)
class SetBack:
    """A clock that was set back to `at`, after it had named times up to `until`."""

    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Past:
    """The past of a job in the rest of the database."""

    events: Sequence[Event] = ()  # of the job
    pruned: Pruned = Pruned()
    known_since: datetime = FIRST_INSTANT  # older events were removed
    set_back: Sequence[SetBack] = ()  # by the clock of the whole database
    zones_since: datetime | None = FIRST_INSTANT  # newest change of zone data; None: this process has other data
    workers: frozenset[UUID] | None = None  # every known worker; None: not read


class Case:
    """A job, its rows and its past."""

    def __init__(
        self,
        job: Job,
        lives: Sequence[Live],
        executions: Sequence[EndedRun],
        skips: Sequence[Skip],
        past: Past,
        now: datetime,
    ) -> None:
        self.job, self.lives, self.all_ended, self.skips = job, lives, executions, skips
        self.past, self.now = past, now
        self.occurrences = [live for live in lives if not live.step]
        self.ended = [each for each in executions if not each.step]
        self.rows: list[EndedRun | Live] = [*self.ended, *self.occurrences]

    @property
    def facts(self) -> Facts:
        return self.job.facts

    @property
    def recurring(self) -> bool:
        return is_recurring(self.job.schedule)

    @property
    def fixed_delay(self) -> bool:
        return self.recurring and self.job.policies.fixed_delay

    @property
    def gone(self) -> bool:
        return self.facts.cancelled_at is not None or self.facts.deleted_at is not None

    @property
    def open(self) -> bool:
        """True if the schedule may queue executions."""
        return self.facts.paused_at is None and self.facts.ended_as is None and not self.gone

    @property
    def most_at_once(self) -> int:
        policies = self.job.policies
        return policies.max_overlap if policies.overlap is Overlap.ALLOW else 1

    @cached_property
    def due_by_number(self) -> dict[int, datetime]:
        """The due time of each occurrence that the schedule asked for, the oldest number first."""
        rows = [row for row in self.rows if row.asked is AskedBy.SCHEDULE]
        return {row.number: row.due_at for row in sorted(rows, key=lambda row: row.number)}

    @cached_property
    def changes(self) -> list[tuple[Event, Mapping[str, Any]]]:
        """The events of the job with their data; an unreadable event counts as empty."""
        return [(event, _data_of(event)) for event in self.past.events]

    @cached_property
    def set_back(self) -> list[SetBack]:
        """List each time that a clock went back: from events of the whole database, from events of this job, or,
        where no event is left, from its rows."""
        recorded = [
            SetBack(event.at, _latest_named(event, data)) for event, data in self.changes if event.kind == "job.rewound"
        ]
        seen = [each for each in _inversions(self.due_by_number) if each.at <= self.past.known_since]
        return [*self.past.set_back, *recorded, *seen]

    @cached_property
    def clock_until(self) -> datetime:
        """The instant up to which times may come from a wrong clock."""
        return max((each.until for each in self.set_back), default=FIRST_INSTANT)

    @property
    def clock_is_back(self) -> bool:
        """True if a wrong clock has handled due times ahead: the job still checks each of them."""
        last, facts = self.facts.last_due_at, self.facts
        return last is not None and bool(self.set_back) and last <= self.clock_until and (
            last > self.now + FIRED_AHEAD or (facts.next_due_at is not None and facts.next_due_at <= last)
            or facts.computed_at is None or last > facts.computed_at + FIRED_AHEAD
        )  # fmt: skip

    @property
    def other_zones(self) -> bool:
        """True if its due times were computed with zone data that this process does not have."""
        return self._zoned and self.past.zones_since is None

    @property
    def has_grid(self) -> bool:
        """True if its due times can be recomputed here."""
        return self.recurring and not self.fixed_delay and not self.other_zones

    @cached_property
    def scheduled_since(self) -> datetime:
        """The instant since which the due times follow from the schedule as it is."""
        return max(self.facts.anchor, self._started_at, self._changed_at)

    @cached_property
    def floor(self) -> datetime:
        """The instant after which each due time must be on the grid and have one record."""
        zones = self.past.zones_since if self._zoned else None
        return max(self.scheduled_since, self.past.pruned.until, self.clock_until, zones or FIRST_INSTANT)

    @property
    def _started_at(self) -> datetime:
        """Return when this schedule began. A `start_at` moves the anchor before it: due times between the two belong
        to an earlier schedule."""
        start, schedule, anchor = self.job.policies.start_at, self.job.schedule, self.facts.anchor
        if start is None:
            return FIRST_INSTANT
        first = anchor + schedule.period if isinstance(schedule, Every) else anchor
        return max(start, first) - INSTANT

    @property
    def _changed_at(self) -> datetime:
        """Return the newest edit of schedule or policies, including runs queued ahead of it; for an edited job not
        before the oldest event in the database."""
        edits = [event.at + FIRED_AHEAD for event, data in self.changes if event.kind == "job.edited" and _moves(data)]
        unknown = [self.past.known_since] if self.facts.version > 1 else []
        return max([*edits, *unknown], default=FIRST_INSTANT)

    @property
    def _zoned(self) -> bool:
        schedule = self.job.schedule
        return isinstance(schedule, Cron) and schedule.timezone != "UTC"


def set_back_of(at: datetime, data: str) -> SetBack | None:
    """Read an event `clock.jumped`; None if the clock was set ahead, or if the event cannot be read."""
    try:
        seconds = json.loads(data)["seconds"]
        return SetBack(at, at - timedelta(seconds=seconds)) if seconds < 0 else None
    except NOT_READABLE:
        return None


def _data_of(event: Event) -> Mapping[str, Any]:
    try:
        data = json.loads(event.data)
    except NOT_READABLE:
        return {}
    return data if isinstance(data, dict) else {}


def _latest_named(event: Event, data: Mapping[str, Any]) -> datetime:
    """Return the greatest instant that an event `job.rewound` names."""
    named = [data.get(name) for name in ("before", "last_due_at")]
    return max(
        [
            event.at,
            *(datetime.fromisoformat(text) for text in named if isinstance(text, str) and text != "None"),
        ]
    )


def _inversions(due_by_number: Mapping[int, datetime]) -> Iterator[SetBack]:
    """Find later numbers with earlier due times: the clock was set back between them."""
    highest = FIRST_INSTANT
    for earlier, later in pairwise(due_by_number.values()):
        highest = max(highest, earlier)
        if later < highest:
            yield SetBack(later, highest)


def _moves(data: Mapping[str, Any]) -> bool:
    after = data.get("after")
    return not isinstance(after, dict) or "schedule" in after or "policies" in after
