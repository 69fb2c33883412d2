"""What must be true of the rows, whatever happened. Each check yields sentences; none is the aim.

The due times of a job are computed here once more, from what people wrote and from the events that tell when its
schedule was changed, and laid beside executions and skips: each has exactly one record, and nothing is left over (G4).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.model import (
    MAX_LOSSES,
    WAITING_PLACE,
    Asked,
    Execution,
    Job,
    Live,
    Result,
    Skip,
    Status,
    WaitsFor,
)
from ostinato.core.policy import Overlap, WhenExhausted
from ostinato.core.retry import BackoffKind
from ostinato.core.schedule import Every, Manual, Once, Schedule, from_json, is_recurring, next_after
from tests.simulation.world import Known, World, short

INSTANT = timedelta(microseconds=1)
AHEAD = timedelta(seconds=1)
ALL = 1_000_000
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
    events: list

    @property
    def name(self) -> str:
        return f"job {short(self.job.id)}"


def broken(world: World, *, at_the_end: bool) -> list[str]:
    """Every guarantee that does not hold."""
    found = [f"G9: {problem}" for problem in world.store.history.problems()]
    everything = list(_all_rows(world))
    for rows in everything:
        found += [f"{rows.name}: {flaw}" for flaw in _flaws(world, rows, at_the_end)]
    found += _promises(world, {rows.job.id: rows for rows in everything})
    if at_the_end:
        found += _left_behind(world)
    return found


def _all_rows(world: World) -> Iterator[Rows]:
    history = world.store.history
    there = world.store.jobs.get(list(world.jobs))
    events: dict[UUID | None, list] = {}
    for event in history.events(ALL):
        events.setdefault(event.job_id, []).append(event)
    for job_id, row in there.items():
        yield Rows(
            world.jobs[job_id], row.job, row.lives, history.of_job(job_id, ALL), history.skips(job_id, ALL),
            sorted(events.get(job_id, []), key=lambda event: event.id),
        )  # fmt: skip


def _flaws(world: World, rows: Rows, at_the_end: bool) -> Iterator[str]:
    yield from _slots(rows)
    yield from _identities(rows)
    yield from _starts(rows)
    yield from _unknown_tasks(rows)
    yield from _status(world, rows)
    if not world.frugal:
        yield from _budgets(rows)
        yield from _once_each(rows)
    if at_the_end:
        yield from _stuck(world, rows)
        if not world.frugal:
            yield from _leftovers(world, rows)


# -- G1, G4: slots and identities


def _slots(rows: Rows) -> Iterator[str]:
    taken = Counter(live.slot for live in rows.lives if live.slot is not None)
    most = max(_most_slots(definition) for definition in rows.known.tried)
    if any(count > 1 for count in taken.values()) or len(set(taken) - {WAITING_PLACE}) > most:
        yield f"G1: the slots {sorted(taken)} are taken, of {most}"
    if taken[WAITING_PLACE] and len(taken) == 1:
        yield "G1: somebody waits for nobody"


def _most_slots(definition) -> int:
    policies = definition.policies
    return policies.max_overlap if policies.overlap is Overlap.ALLOW else 1


def _identities(rows: Rows) -> Iterator[str]:
    everything = [*rows.lives, *rows.executions]
    if len({(row.number, row.attempt) for row in everything}) != len(everything):
        yield "G4: an attempt exists twice"
    if len({row.execution_number for row in everything}) != len(everything):
        yield "G4: an execution number exists twice"
    if any(row.number > rows.job.facts.last_number for row in everything):
        yield "G4: a number that was never given"
    if rows.known.made.key is not None and rows.job.definition.key is None:
        yield "G10: it has lost its key"


# -- G5, G7, G12


def _starts(rows: Rows) -> Iterator[str]:
    for each in rows.executions:
        if each.started_at is None:
            continue
        if each.started_at < each.run_at:
            yield f"G5: n{each.number}-rc{each.attempt} started at {each.started_at}, before {each.run_at}"
        if each.asked is Asked.SCHEDULE and each.attempt == 0 and each.started_at < each.due_at:
            yield f"G5: n{each.number}-rc{each.attempt} started before it was due"


def _budgets(rows: Rows) -> Iterator[str]:
    if any(d.policies.when_exhausted is WhenExhausted.WAIT_RESET for d in rows.known.tried):
        return  # a reset gives an occurrence another budget
    fresh = {json.loads(event.data)["number"] for event in rows.events if event.kind == "job.retried"}
    failures = Counter(e.number for e in rows.executions if e.result in (Result.FAILED, Result.TIMED_OUT))
    losses = Counter(e.number for e in rows.executions if e.result is Result.LOST)
    most = 1 + max(definition.policies.max_retries for definition in rows.known.tried)
    for number in failures.keys() - fresh:
        if failures[number] > most:
            yield f"G7: n{number} failed {failures[number]} times of {most}"
    for number in losses.keys() - fresh:
        if losses[number] > MAX_LOSSES:
            yield f"G7: n{number} was lost {losses[number]} times"
    if not any(event.kind in ("job.run", "job.retried", "job.rewound") for event in rows.events):
        yield from _backoffs(rows)


def _backoffs(rows: Rows) -> Iterator[str]:
    """A retry waits at least as long as the first step of any backoff that the job ever had."""
    least = min(_first_wait(definition.policies.backoff) for definition in rows.known.tried)
    later = {(row.number, row.attempt): row for row in [*rows.lives, *rows.executions]}
    for each in rows.executions:
        after = later.get((each.number, each.attempt + 1))
        failed = each.result is Result.TIMED_OUT or each.error_kind == "ValueError"
        if failed and after is not None and after.run_at < each.finished_at + least:
            yield f"G7: n{after.number}-rc{after.attempt} did not wait {least}"


def _first_wait(backoff) -> timedelta:
    plain = min(backoff.steps) if backoff.kind is BackoffKind.STEPS else backoff.base
    return min(plain, backoff.cap)


def _unknown_tasks(rows: Rows) -> Iterator[str]:
    for each in rows.executions:
        if each.task == "nobody" and (each.started_at or each.result is not Result.CANCELLED):
            yield f"G12: a task that nobody knows {each.result}"


def _status(world: World, rows: Rows) -> Iterator[str]:
    rule, view = lifecycle.status(rows.job, rows.lives), world.store.jobs.status_of(rows.job.id)
    if rule is not view:
        yield f"the rule says {rule}, the view says {view}"
    if rows.known.stopped == "cancel" and rule is not Status.CANCELLED:
        yield f"G7: it was cancelled, and is {rule}"
    if rows.known.stopped == "pause" and rows.job.facts.paused_at is None and not _is_over(rows.job):
        yield f"G8: it was paused, and is {rule}"


def _is_over(job: Job) -> bool:
    return job.facts.cancelled_at is not None or job.facts.ended_as is not None


# -- nothing is stuck, nobody is forgotten


def _stuck(world: World, rows: Rows) -> Iterator[str]:
    facts, now = rows.job.facts, world.clock.now()
    is_open = not (facts.paused_at or facts.ended_as or facts.cancelled_at)
    if is_open and is_recurring(rows.job.schedule) and not rows.lives and facts.next_due_at is None:
        yield "stuck: nothing is live and nothing comes next"
    if facts.next_due_at is not None and facts.next_due_at <= now:
        yield f"stuck: due since {facts.next_due_at}"
    yield from _too_far_away(rows, now)
    if facts.ended_as and not (facts.ended_at or facts.cancelled_at or rows.lives):
        yield "stuck: over, but not ended"
    for live in rows.lives:
        yield from _waits_in_vain(rows, live, now)


def _too_far_away(rows: Rows, now: datetime) -> Iterator[str]:
    """G5: no clock that was ahead has put off the next time."""
    facts, schedule, policies = rows.job.facts, rows.job.schedule, rows.job.policies
    if facts.next_due_at is None or facts.reset_at is not None or not is_recurring(schedule):
        return
    soon = now + AHEAD  # what comes before has been fired already
    after = soon if policies.start_at is None else max(soon, policies.start_at - INSTANT)
    soonest = next_after(schedule, facts.anchor, after)
    if policies.fixed_delay and isinstance(schedule, Every):
        soonest = after + schedule.period
    if soonest is not None and facts.next_due_at > soonest:
        yield f"G5: its next time is {facts.next_due_at}, though {soonest} comes first"


def _waits_in_vain(rows: Rows, live: Live, now: datetime) -> Iterator[str]:
    name = f"stuck: n{live.number}-rc{live.attempt}"
    match live.waits_for:
        case None if live.worker_id is None and live.run_at <= now:
            yield f"{name} may start and does not"
        case WaitsFor.TIME if live.run_at <= now:
            yield f"{name} waits for a time that has come"
        case WaitsFor.TURN if len(rows.lives) == 1:
            yield f"{name} waits for nobody's turn"
        case WaitsFor.RESUME if rows.job.facts.paused_at is None:
            yield f"{name} waits for the resume of a job that is not paused"
        case WaitsFor.TASK if live.task != "nobody":
            yield f"{name} waits for somebody who knows {live.task}"


def _left_behind(world: World) -> Iterator[str]:
    """G6: what a dead worker held is held by nobody after lease + 2 sweeps."""
    alive = {process.id for process in world.processes}
    for live in world.store.history.live(ALL):
        if live.worker_id is not None and live.worker_id not in alive:
            yield f"G6: {short(live.job_id)} n{live.number} is still held by a dead worker"


def _promises(world: World, there: dict[UUID, Rows]) -> Iterator[str]:
    """G3: what was acknowledged is there."""
    for job_id, known in world.jobs.items():
        expires = world.frugal and any(isinstance(each.schedule, Once) for each in known.tried)
        if job_id not in there and not known.deleted and not expires:
            yield f"G3: job {short(job_id)} was made, and is gone"
    if world.frugal:
        return
    kept = {each.id: each for rows in there.values() for each in rows.executions}
    for ended in world.ledger.settled.values():
        if ended.job_id in there and kept.get(ended.id) != ended:
            there_is = kept.get(ended.id)
            yield f"G3: {short(ended.job_id)} n{ended.number} was settled as {ended.result}, there is {there_is}"


# -- G4: each due time has one record


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


def _once_each(rows: Rows) -> Iterator[str]:
    """No due time has two records."""
    if not is_recurring(rows.known.made.schedule) or any(
        not is_recurring(d.schedule) for d in rows.known.tried
    ):
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


def _leftovers(world: World, rows: Rows) -> Iterator[str]:
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
    return {row.number: row.due_at for row in [*rows.executions, *rows.lives] if row.asked is Asked.SCHEDULE}


def _compare(
    stretch: Stretch, since: datetime, until: datetime, occurrences: list[datetime], skips: list[Skip]
) -> Iterator[str]:
    run = [due for due in occurrences if since < due <= until]
    skips = [skip for skip in skips if skip.last_due_at > since and skip.first_due_at <= until]
    if stretch.open_end:
        until = min(until, max([*run, *(skip.last_due_at for skip in skips)], default=since))
    due = [at for at in stretch.due_times(until) if at > since]
    strange = set(run) - set(due)
    if strange:
        yield f"G4: {min(strange)} was run, and is no due time of {stretch}"
    left = Counter(due) - Counter(run)
    for skip in skips:
        inside = [at for at in left if skip.first_due_at <= at <= skip.last_due_at]
        whole = skip.first_due_at > since and skip.last_due_at <= until
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
    current = Stretch(
        created, made.schedule, anchor, policies.start_at, [policies.end_at], policies.fixed_delay
    )
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
            return replace(
                current, since=event.at, anchor=anchor, ends=current.ends[-1:], until=None, open_end=False
            )
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
