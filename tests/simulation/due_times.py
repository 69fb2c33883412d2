"""G4: each due time has one record.

The due times of a job are computed here once more, from what people wrote and from the events that tell when its
schedule was changed, and laid beside executions and skips: each has exactly one record, and nothing is left over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ostinato.core.model import AskedBy, Event, Execution, Job, Live, Skip
from ostinato.core.schedule import Every, Manual, Once, Schedule, from_json, is_recurring, next_after
from tests.simulation.ledger import Known, short
from tests.simulation.world import World

INSTANT = timedelta(microseconds=1)
CHANGES = ("job.edited", "job.resumed", "job.restarted", "job.cancelled")
FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Rows:
    """All that the database has of one job."""

    known: Known
    job: Job
    lives: tuple[Live, ...]
    executions: list[Execution]
    skips: list[Skip]
    events: list[Event]

    @property
    def name(self) -> str:
        return f"job {short(self.job.id)}"


@dataclass
class Stretch:
    """A span of time, `(since, until]`, in which the due times followed from one schedule and anchor."""

    since: datetime
    schedule: Schedule
    anchor: datetime
    start_at: datetime | None
    ends: list[datetime | None]  # every `end_at` it had: what came due between two of them may go by either
    fixed_delay: bool
    until: datetime | None = None
    open_end: bool = False  # it ended by itself, somewhere before `until`

    @property
    def grid(self) -> tuple[object, ...]:
        return self.schedule, self.start_at, self.fixed_delay

    @property
    def surely_until(self) -> datetime:
        return min(end or FOR_EVER for end in self.ends)

    def due_times(self, until: datetime) -> Iterator[datetime]:
        after = self.since if self.start_at is None else max(self.since, self.start_at - INSTANT)
        last = min(until, max(end or FOR_EVER for end in self.ends))
        while (due := next_after(self.schedule, self.anchor, after)) is not None and due <= last:
            yield due
            after = due


def once_each(rows: Rows) -> Iterator[str]:
    """No due time has two records."""
    if not is_recurring(rows.known.made.schedule) or any(not is_recurring(d.schedule) for d in rows.known.tried):
        return
    beginnings = {event.at for event in rows.events if event.kind == "job.restarted"}
    times = Counter(_by_number(rows).values())
    for due, count in times.items():
        if count > 1 and due not in beginnings:
            yield f"G4: {count} occurrences of {due}"
    ranges = sorted((skip.first_due_at, skip.last_due_at) for skip in rows.skips)
    for (first, last), (again, _) in pairwise(ranges):
        if again <= last and again not in beginnings:
            yield f"G4: {again} is skipped twice, since {first} and again"
    for due in times:
        if any(first <= due <= last for first, last in ranges) and due not in beginnings:
            yield f"G4: {due} has an occurrence, and was skipped"


def leftovers(world: World, rows: Rows) -> Iterator[str]:
    """Recomputing the due times leaves nothing over."""
    if world.set_back and (world.clock.now() <= world.high_water or _changed_by(rows, world.high_water)):
        return
    begin = world.high_water if world.set_back else world.begun - timedelta(days=1)
    stretches = _stretches(rows)
    at_once = {stretch.since for stretch in stretches} | {
        definition.schedule.at for definition in rows.known.tried if isinstance(definition.schedule, Once)
    }
    occurrences = sorted(due for due in _by_number(rows).values() if due not in at_once)
    skips = [skip for skip in rows.skips if skip.count > 1 or skip.first_due_at not in at_once]
    for stretch in stretches:
        if is_recurring(stretch.schedule) and not stretch.fixed_delay:
            until = stretch.until or _recorded_until(world, rows)
            yield from _compare(stretch, max(stretch.since, begin), until, occurrences, skips)


def _changed_by(rows: Rows, at: datetime) -> bool:
    """Whether the schedule was changed when the clock was still wrong: by the time of events nobody can say how."""
    return any(event.kind in CHANGES and event.at <= at for event in rows.events)


def _by_number(rows: Rows) -> dict[int, datetime]:
    """The due times that became occurrences."""
    return {row.number: row.due_at for row in [*rows.executions, *rows.lives] if row.asked is AskedBy.SCHEDULE}


def _compare(
    stretch: Stretch, since: datetime, until: datetime, occurrences: list[datetime], skips: list[Skip]
) -> Iterator[str]:
    run = [due for due in occurrences if since < due <= until]
    skips = [skip for skip in skips if skip.last_due_at > since and skip.first_due_at <= until]
    if stretch.open_end:
        skips = [skip for skip in skips if skip.first_due_at < until]  # one that begins there is the next stretch's
        until = min(until, max([*run, *(skip.last_due_at for skip in skips)], default=since))
    due = [at for at in stretch.due_times(until) if at > since]
    strange = set(run) - set(due)
    if strange:
        yield f"G4: {min(strange)} was run, and is no due time of {stretch}"
    left = Counter(due) - Counter(run)
    for skip in skips:
        inside = [at for at in left if skip.first_due_at <= at <= skip.last_due_at]
        whole = skip.first_due_at > since and skip.last_due_at < until and len(set(stretch.ends)) == 1
        if whole and len(inside) != skip.count:
            yield f"G4: {len(inside)} due times, not {skip.count}, in {skip}"
        for at in inside:
            del left[at]
    left = [at for at in left if at <= stretch.surely_until]
    if left:
        yield f"G4: {len(left)} due times without a record, the first {min(left)}, until {until} in {stretch}"


def _recorded_until(world: World, rows: Rows) -> datetime:
    """Up to here everything has its record."""
    facts, now = rows.job.facts, world.clock.now()
    if facts.next_due_at is not None and facts.reset_at is None:
        return min(now, facts.next_due_at - INSTANT)
    return min(facts.last_due_at or facts.anchor, now)


def _stretches(rows: Rows) -> list[Stretch]:
    made, created = rows.known.made, rows.job.facts.created_at
    policies = made.policies
    anchor = _first_anchor(made.schedule, policies.start_at, created)
    current = Stretch(created, made.schedule, anchor, policies.start_at, [policies.end_at], policies.fixed_delay)
    stretches = [current]
    for event in rows.events:
        following = _following(current, event, json.loads(event.data))
        if following is not current:
            current.until = event.at
            current.open_end |= event.kind == "job.restarted" or event.at in rows.known.changed_when_over
            stretches.append(current := following)
    if rows.job.facts.ended_as is not None:
        current.open_end = True
    return [stretch for stretch in stretches if stretch.since != stretch.until]


def _following(current: Stretch, event, data: dict) -> Stretch:
    """The stretch that an event begins, or the current one."""
    match event.kind:
        case "job.edited":
            return _edited(current, event.at, data)
        case "job.resumed" | "job.restarted":
            anchor = datetime.fromisoformat(data["anchor"])
            return replace(current, since=event.at, anchor=anchor, ends=current.ends[-1:], until=None, open_end=False)
        case "job.cancelled" | "job.deleted":
            return replace(current, since=event.at, schedule=Manual())
        case _:
            return current


def _first_anchor(schedule: Schedule, start: datetime | None, created: datetime) -> datetime:
    if not isinstance(schedule, Every) or start is None:
        return created
    if start >= created:
        return start - schedule.period
    return created - (created - start) % schedule.period


def _edited(current: Stretch, at: datetime, data: dict) -> Stretch:
    after, policies = data["after"], data["after"].get("policies", {})
    end = _instant(policies, "end_at", current.ends[-1])
    edited = Stretch(
        since=at,
        schedule=from_json(after["schedule"]) if "schedule" in after else current.schedule,
        anchor=datetime.fromisoformat(data["anchor"]),
        start_at=_instant(policies, "start_at", current.start_at),
        ends=[end],
        fixed_delay=policies.get("fixed_delay", str(current.fixed_delay)) in ("True", True),
    )
    if edited.grid != current.grid:
        return edited
    current.ends.append(end)
    return current


def _instant(policies: dict, name: str, otherwise: datetime | None) -> datetime | None:
    text = policies.get(name, otherwise)
    if isinstance(text, str):
        return None if text == "None" else datetime.fromisoformat(text)
    return text
