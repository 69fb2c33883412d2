"""What must be true of the rows, whatever happened. Each check yields sentences; none is the aim."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.model import MAX_LOSSES, WAITING_PLACE, AskedBy, Job, Live, Status, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import BackoffKind, Overlap, WhenExhausted
from ostinato.core.schedule import Every, Once, is_recurring, next_after
from tests.simulation.due_times import Rows, leftovers, once_each
from tests.simulation.ledger import short
from tests.simulation.world import World

INSTANT = timedelta(microseconds=1)
AHEAD = timedelta(seconds=1)
ALL = 1_000_000


def broken(world: World, *, at_the_end: bool) -> list[str]:
    """Every guarantee that does not hold."""
    found = [f"audit: {problem}" for problem in world.store.audit.problems(world.clock.now())]
    found += [f"audit: told {event.data}" for event in world.store.history.events(ALL) if event.kind == "audit.flaw"]
    everything = list(_all_rows(world))
    for rows in everything:
        found += [f"{rows.name}: {flaw}" for flaw in _flaws(world, rows, at_the_end)]
    found += _promises(world, {rows.job.id: rows for rows in everything})
    if at_the_end:
        found += _left_behind(world)
    return found


def _all_rows(world: World) -> Iterator[Rows]:
    history = world.store.history
    there = world.store.jobs.get(list(world.ledger.jobs))
    events: dict[UUID | None, list] = {}
    for event in history.events(ALL):
        events.setdefault(event.job_id, []).append(event)
    for job_id, row in there.items():
        yield Rows(
            world.ledger.jobs[job_id], row.job, row.lives, history.of_job(job_id, ALL), history.skips(job_id, ALL),
            sorted(events.get(job_id, []), key=lambda event: event.id),
        )  # fmt: skip


def _flaws(world: World, rows: Rows, at_the_end: bool) -> Iterator[str]:
    yield from _slots(rows)
    yield from _identities(rows)
    yield from _starts(world, rows)
    if world.misfortune:  # else every worker knows every task
        yield from _unknown_tasks(rows)
    yield from _status(world, rows)
    if not world.frugal:
        yield from _budgets(rows)
        yield from once_each(rows)
    if at_the_end:
        yield from _stuck(world, rows)
        if not world.frugal:
            yield from leftovers(world, rows)


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


def _starts(world: World, rows: Rows) -> Iterator[str]:
    for each in rows.executions:
        if each.started_at is None:
            continue
        if each.started_at < each.run_at:
            yield f"G5: n{each.number}-rc{each.attempt} started at {each.started_at}, before {each.run_at}"
        first = each.asked is AskedBy.SCHEDULE and each.attempt == 0 and not world.set_back
        if first and each.started_at < each.due_at:
            yield f"G5: n{each.number}-rc{each.attempt} started before it was due"


def _budgets(rows: Rows) -> Iterator[str]:
    if any(d.policies.when_exhausted is WhenExhausted.WAIT_RESET for d in rows.known.tried):
        return  # a reset gives an occurrence another budget
    fresh = {json.loads(event.data)["number"] for event in rows.events if event.kind == "job.retried"}
    failures = Counter(e.number for e in rows.executions if e.outcome in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT))
    losses = Counter(e.number for e in rows.executions if e.outcome is OutcomeKind.LOST)
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
        failed = each.outcome is OutcomeKind.TIMED_OUT or each.error_kind == "ValueError"
        if failed and after is not None and after.run_at < after.queued_at + least:
            yield f"G7: n{after.number}-rc{after.attempt} did not wait {least}"


def _first_wait(backoff) -> timedelta:
    plain = min(backoff.steps) if backoff.kind is BackoffKind.STEPS else backoff.base
    return min(plain, backoff.cap)


def _unknown_tasks(rows: Rows) -> Iterator[str]:
    for each in rows.executions:
        if each.task == "nobody" and (each.started_at or each.outcome is not OutcomeKind.CANCELLED):
            yield f"G12: a task that nobody knows {each.outcome}"


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
    for job_id, known in world.ledger.jobs.items():
        expires = world.frugal and any(isinstance(each.schedule, Once) for each in known.tried)
        if job_id not in there and not known.deleted and not expires:
            yield f"G3: job {short(job_id)} was made, and is gone"
    if world.frugal:
        return
    kept = {each.id: each for rows in there.values() for each in rows.executions}
    for ended in world.ledger.settled.values():
        if ended.job_id in there and kept.get(ended.id) != ended:
            there_is = kept.get(ended.id)
            yield f"G3: {short(ended.job_id)} n{ended.number} was settled as {ended.outcome}, there is {there_is}"
    for done in world.ledger.completed.values():
        live, found = done.live, kept.get(done.live.id)
        told = None if found is None else (found.outcome, found.finished_at, found.fence, found.number, found.attempt)
        if live.job_id in there and told != (
            OutcomeKind.COMPLETED,
            done.at,
            live.fence,
            live.number,
            live.attempt,
        ):
            yield f"G3: {short(live.job_id)} n{live.number} has completed, there is {found}"
