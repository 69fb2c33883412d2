"""What is wrong with a life, in words: every way in which it breaks a guarantee."""

from collections import Counter
from itertools import pairwise

from ostinato.core.lifecycle import due_times
from ostinato.core.model import MAX_LOSSES, WAITING_PLACE, AskedBy, Ending, Status, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.schedule import Manual, Once, is_recurring
from tests.core.life import Life

INSTANT = due_times.INSTANT


def faults(life: Life) -> list[str]:
    """Every way in which this life breaks a guarantee."""
    return [
        fault
        for look in (
            slots, identities, counters, budgets, leftovers, next_times, silence, hands_off, transitions, schema
        )
        for fault in look(life)
    ]  # fmt: skip


def slots(life):
    """G1: one occurrence in each slot, no more slots than allowed, one waiting place that is never forgotten."""
    taken = Counter(live.slot for live in life.rows)
    most = max(n for stretch in life.definitions for n in [_slots(stretch)])
    if any(count > 1 for count in taken.values()):
        yield f"two occurrences in one slot: {taken}"
    if any(not WAITING_PLACE <= slot < most for slot in taken):
        yield f"a slot that does not exist: {taken}"
    if taken[WAITING_PLACE] and len(taken) == 1:
        yield "somebody waits for nobody"


def identities(life):
    """G4: an attempt at an occurrence exists once, and so does its number as an execution."""
    rows = [*life.rows, *life.executions]
    if len({(row.number, row.attempt) for row in rows}) != len(rows):
        yield "an attempt that exists twice"
    if len({row.execution_number for row in rows}) != len(rows):
        yield "an execution number that exists twice"
    if len({live.number for live in life.rows}) != len(life.rows):
        yield "two live attempts at one occurrence"
    if any(row.number > life.facts.last_number for row in rows):
        yield "a number that was never given"


def counters(life):
    """G9: counters equal history."""
    by_result = Counter(each.outcome for each in life.executions)
    for result in OutcomeKind:
        if getattr(life.facts, result.value) != by_result[result]:
            yield f"{result} is counted {getattr(life.facts, result.value)}, but there are {by_result[result]}"
    if life.facts.skipped != sum(skip.count for skip in life.skips):
        yield f"skipped is {life.facts.skipped}, but the skips say {sum(skip.count for skip in life.skips)}"


def budgets(life):
    """G7: no more failures than the first try and its retries, no more than three losses."""
    failures = Counter(e.number for e in life.executions if e.outcome in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT))
    losses = Counter(e.number for e in life.executions if e.outcome is OutcomeKind.LOST)
    most = 1 + max(definition.policies.max_retries for definition in life.definitions)
    for number in failures.keys() - life.retried:
        if failures[number] > most:
            yield f"occurrence {number} failed {failures[number]} times"
    for number in losses.keys() - life.retried:
        if losses[number] > MAX_LOSSES:
            yield f"occurrence {number} was lost {losses[number]} times"


def leftovers(life):
    """G4: recomputing the due times from the schedule leaves nothing over, and nothing has two records."""
    records = _records(life)
    for earlier, later in pairwise(records):
        if later[0] <= earlier[1]:
            yield f"two records for one due time: {earlier} and {later}"
    dealt = life.facts.anchor if life.facts.last_due_at is None else max(life.facts.anchor, life.facts.last_due_at)
    for stretch in life.stretches:
        if not stretch.has_grid:
            continue
        waits = stretch is life.stretches[-1] and life.facts.first_run_waits
        # A first run that an edit has moved is the new schedule's, also if the old one ended at that instant.
        moved = [each.since for each in life.stretches if each is not stretch and each.due_at_once]
        due = stretch.count(stretch.since, stretch.until or dealt) + stretch.due_at_once - waits
        has = 0
        for first, last, count in records:
            if not _within(stretch, first) or first in moved:
                continue
            has += count
            if first != stretch.since and count != stretch.count(first - INSTANT, last):
                yield f"{count} recorded, {stretch.count(first - INSTANT, last)} due from {first} to {last}"
        if has != due:
            yield f"{due} due since {stretch.since}, {has} recorded"


def next_times(life):
    """`next_due_at` is empty where nothing may be fired, and never jumps over a due time."""
    facts, definition = life.facts, life.job.definition
    stopped = facts.paused_at or facts.cancelled_at or facts.ended_as or facts.deleted_at
    if facts.next_due_at is None:
        return
    if stopped:
        yield "a next due time of a job that must not fire"
    if is_recurring(definition.schedule) and facts.reset_at is None and not definition.policies.fixed_delay:
        dealt = facts.anchor if facts.last_due_at is None else max(facts.anchor, facts.last_due_at)
        if due_times.count_due(definition, facts, dealt, facts.next_due_at - INSTANT):
            yield f"jumps from {dealt} to {facts.next_due_at}"


def silence(life):
    """A job that is open and has nothing live has a next time; one with something live may wait for it."""
    facts, policies, schedule = life.facts, life.job.policies, life.job.schedule
    stopped = facts.paused_at or facts.cancelled_at or facts.ended_at or facts.deleted_at
    if stopped or facts.next_due_at is not None or isinstance(schedule, Manual):
        return
    if not life.rows:
        yield "stuck: nothing is live and nothing comes next"
    catches_up = any(each.policies.catch_up is CatchUp.ALL for each in life.definitions)
    may_wait = policies.fixed_delay or catches_up or facts.reset_at or facts.ended_as
    if is_recurring(schedule) and not may_wait:
        dealt = facts.anchor if facts.last_due_at is None else max(facts.anchor, facts.last_due_at)
        if due_times.next_due(life.job.definition, facts, dealt) is not None:
            yield "nothing comes next, though something is due"


def hands_off(life):
    """G8: of a job that is paused, cancelled, ended or deleted nothing may start but what a person asked for."""
    facts = life.facts
    for live in life.rows:
        if live.running:
            continue
        asked = live.asked is AskedBy.HAND or live.id in life.started_by_hand
        if facts.cancelled_at or facts.deleted_at or facts.ended_at:
            yield f"{live.number} waits, though its job is over"
        elif facts.ended_as is not None and not asked:
            yield f"{live.number} waits, though its schedule is over"
        elif facts.paused_at is not None and live.waits_for is not WaitsFor.RESUME and not asked:
            yield f"{live.number} may start, though its job is paused"


MAY_BECOME = {
    Status.PENDING: "scheduled queued running paused completed cancelled",
    Status.SCHEDULED: "queued pending running paused completed cancelled",
    Status.QUEUED: "running scheduled paused cancelled",
    Status.RUNNING: "completed failed scheduled queued pending paused cancelled",
    Status.PAUSED: "scheduled queued pending running completed failed cancelled",
    Status.COMPLETED: "scheduled pending",
    Status.FAILED: "scheduled pending",
    Status.CANCELLED: "",
}


def transitions(life):
    """The allowed changes of status; one step may take two of its rows, through `scheduled`."""
    for before, after, facts in life.statuses:
        direct = before is after or after.value in MAY_BECOME[before].split()
        through = "scheduled" in MAY_BECOME[before].split() and after in MAY_BECOME[Status.SCHEDULED].split()
        back = after is Status.FAILED and facts.ended_as is Ending.FAILED  # run by hand once more
        if not (direct or through or back):
            yield f"{before} became {after}"


def schema(life):
    """What the database checks."""
    facts = life.facts
    if facts.ended_at is not None and facts.ended_as is None:
        yield "ended, but how?"
    if facts.last_execution_number < facts.last_number:
        yield "more occurrences than executions"
    for live in life.rows:
        if live.worker_id is not None and (live.waits_for is not None or live.started_at is None):
            yield "runs and waits"
        if (live.slot == WAITING_PLACE) != (live.waits_for is WaitsFor.TURN) and not facts.paused_at:
            yield f"slot {live.slot} waits for {live.waits_for}"
        if live.asked is AskedBy.SCHEDULE and live.run_at < live.due_at:
            yield "may start before it is due"
    if any(skip.count < 1 or skip.first_due_at > skip.last_due_at for skip in life.skips):
        yield "a skip of nothing"


def _slots(definition):
    policies = definition.policies
    return policies.max_overlap if policies.overlap is Overlap.ALLOW else 1


def _records(life):
    """(first, last, count) of every skip, and of every occurrence, of the due times that are on a grid."""
    grid = [stretch for stretch in life.stretches if stretch.has_grid]
    single = {each.schedule.at for each in life.definitions if isinstance(each.schedule, Once)}
    rows = {row.number: row.due_at for row in [*life.executions, *life.rows] if row.asked is AskedBy.SCHEDULE}
    records = [(due, due, 1) for due in rows.values()]
    records += [(skip.first_due_at, skip.last_due_at, skip.count) for skip in life.skips]
    return sorted(
        record for record in records if record[0] not in single and any(_within(stretch, record[0]) for stretch in grid)
    )


def _within(stretch, due):
    at_once = stretch.due_at_once and due == stretch.since
    return at_once or (stretch.since < due and (stretch.until is None or due <= stretch.until))
