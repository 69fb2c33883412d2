"""Drafts of changes: the steps that all rules share, and the plan of a run that queues steps of its own.

A rule makes a Draft from its arguments, changes the draft and returns `draft.change()`. The draft holds its own copy of
the facts and of the live rows, so a rule stays a function from values to a value.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, Protocol
from uuid import UUID

from ostinato.core import schedule as when
from ostinato.core.lifecycle.due_times import FIRED_AHEAD, FIRST_INSTANT, INSTANT, count_due, newest_due, next_due
from ostinato.core.limits import limit_key
from ostinato.core.model import (
    RUN_SLOT,
    WAITING_PLACE,
    AskedBy,
    Chance,
    Change,
    Definition,
    Event,
    Execution,
    Facts,
    Job,
    Live,
    Skip,
    SkipReason,
    WaitsFor,
    ended_from,
)
from ostinato.core.outcome import (
    Cancelled,
    Completed,
    Deferred,
    End,
    Error,
    Interrupted,
    Lost,
    Outcome,
    OutcomeKind,
    Release,
)
from ostinato.core.policy import Overlap
from ostinato.core.schedule import Every, Once

ALL_FACTS = attrgetter(*[field.name for field in fields(Facts)])


class Draft:
    """The next state of one job, while a rule decides."""

    def __init__(self, job: Job, lives: Sequence[Live], now: datetime, chance: Chance, by: str = "") -> None:
        self.id: UUID = job.id
        self.definition: Definition = job.definition
        self.facts: Facts = Facts(*ALL_FACTS(job.facts))  # 0.9 µs; `replace` takes 5
        self.now, self.chance, self.by = now, chance, by
        self.lives: dict[UUID, Live] = {live.id: live for live in lives}
        self._add: dict[UUID, Live] = {}
        self._alter: dict[UUID, Live] = {}
        self._drop: list[UUID] = []
        self._ended: list[Execution] = []
        self._skips: list[Skip] = []
        self._events: list[Event] = []
        self._rewritten: list[Skip] = []

    def change(self) -> Change:
        """Return the decision."""
        return Change(
            Job(self.id, self.definition, self.facts),
            tuple(self._add.values()),
            tuple(self._alter.values()),
            tuple(self._drop),
            tuple(self._ended),
            tuple(self._skips),
            tuple(self._events),
            tuple(self._rewritten),
        )

    # -- questions

    @property
    def recurring(self) -> bool:
        return when.is_recurring(self.definition.schedule)

    @property
    def run_once(self) -> bool:
        return isinstance(self.definition.schedule, Once)

    @property
    def fixed_delay(self) -> bool:
        return self.definition.policies.fixed_delay and self.recurring

    @property
    def open(self) -> bool:
        """True if the schedule may queue executions."""
        return self.facts.paused_at is None and self.facts.ended_as is None and not self.gone

    @property
    def gone(self) -> bool:
        return self.facts.cancelled_at is not None or self.facts.deleted_at is not None

    @property
    def dealt_until(self) -> datetime:
        """The instant up to which every due time has its record; a recurring job begins at its anchor."""
        begin = self.facts.anchor if self.recurring else FIRST_INSTANT
        return max(begin, self.facts.last_due_at or begin)

    @property
    def goes_on_from(self) -> datetime:
        """The instant after which the next due time is sought; not beyond now, where a wrong clock left gaps."""
        dealt = self.dealt_until
        return dealt if dealt - self.now <= FIRED_AHEAD else self.now

    @property
    def its_time_has_come(self) -> bool:
        """True if the due time of a run-once job has been handled."""
        schedule, last = self.definition.schedule, self.facts.last_due_at
        return isinstance(schedule, Once) and last is not None and last >= schedule.at

    def outside_window(self, due: datetime) -> bool:
        """Return True if the window excludes a due time. A run-once job waits for the opening instead."""
        window = self.definition.policies.window
        return window is not None and self.recurring and not window.contains(due)

    def opening(self, at: datetime) -> datetime:
        """Return the first instant from this one on that the window allows."""
        window = self.definition.policies.window
        return at if window is None else window.next_opening(at)

    def held_by_pause(self, row: Live | Execution) -> bool:
        """Return True if a pause holds this row: all but runs that a person asked for after the pause."""
        paused_at = self.facts.paused_at
        return paused_at is not None and not (row.asked is AskedBy.HAND and row.due_at > paused_at)

    def occurrences(self) -> list[Live]:
        """List the live rows that stand for an occurrence (steps do not)."""
        return [live for live in self.lives.values() if live.slot is not None]

    def run_of(self, step: Live) -> Live | None:
        """Return the run that a step belongs to."""
        found = (live for live in self.occurrences() if live.number == step.number)
        return next((live for live in found if live.waits_for is WaitsFor.STEPS), None)

    def steps_of(self, run: Live) -> list[Live]:
        """List the live steps of a run."""
        return [live for live in self.lives.values() if live.step and live.number == run.number]

    def waiting(self) -> Live | None:
        """Return the live row in the waiting place."""
        return next((live for live in self.lives.values() if live.slot == WAITING_PLACE), None)

    def free_slot(self) -> int | None:
        """Return a free slot, if there is one."""
        policies = self.definition.policies
        slots = policies.max_overlap if policies.overlap is Overlap.ALLOW else 1
        taken = {live.slot for live in self.occurrences()} - {WAITING_PLACE}
        if len(taken) >= slots:  # slots may date from before an edit
            return None
        return next(slot for slot in range(slots) if slot not in taken)

    def free_place(self) -> int | None:
        """Return a free slot, else the waiting place if that is free."""
        slot = self.free_slot()
        return WAITING_PLACE if slot is None and self.waiting() is None else slot

    # -- the queue

    def queue_first(self, due_at: datetime, asked: AskedBy, slot: int = RUN_SLOT, args: str | None = None) -> None:
        """Queue the first attempt at a new occurrence."""
        self.facts.last_number += 1
        run_at = self._start_of(due_at) if asked is AskedBy.SCHEDULE else due_at
        if slot == WAITING_PLACE:
            waits_for: WaitsFor | None = WaitsFor.TURN
        else:
            waits_for = WaitsFor.TIME if run_at - self.now > FIRED_AHEAD else None
        self._queue(
            number=self.facts.last_number, attempt=0, due_at=due_at, asked=asked, run_at=run_at,
            slot=slot, waits_for=waits_for, args=args,
        )  # fmt: skip

    def queue_again(self, ended: Execution, run_at: datetime, slot: int | None, **carried: int) -> None:
        """Queue the next attempt at an occurrence; it inherits the values of the occurrence."""
        self._queue(
            number=ended.number, attempt=ended.attempt + 1, due_at=ended.due_at, asked=ended.asked,
            run_at=run_at, slot=slot, waits_for=self._wait(ended, run_at), args=ended.args, step=ended.step,
            checkpoint=ended.checkpoint, releases=ended.releases,
            **{"failures": ended.failures, "losses": ended.losses} | carried,
        )  # fmt: skip

    def queue_step(self, run: Live, step: str, task: str, args: str | None, attempt: int) -> Live:
        """Queue an attempt at a step of a run; it has no slot, and counts as the run's own execution."""
        live = Live(
            id=self.chance.id(self.now), job_id=self.id, number=run.number, attempt=attempt,
            execution_number=run.execution_number, asked=run.asked, due_at=run.due_at, run_at=self.now,
            queued_at=self.now, queue=run.queue, priority=run.priority, task=task, step=step, slot=None, args=args,
        )  # fmt: skip
        self.lives[live.id] = self._add[live.id] = live
        return live

    def queue_step_again(self, ended: Execution, run_at: datetime, failures: int, losses: int) -> None:
        """Queue the next attempt at a step."""
        live = Live(
            id=self.chance.id(self.now), job_id=self.id, number=ended.number, attempt=ended.attempt + 1,
            execution_number=ended.execution_number, asked=ended.asked, due_at=ended.due_at, run_at=run_at,
            queued_at=self.now, queue=ended.queue, priority=self.definition.priority, task=ended.task,
            step=ended.step, slot=None, waits_for=WaitsFor.TIME if run_at > self.now else None, args=ended.args,
            checkpoint=ended.checkpoint, releases=ended.releases, failures=failures, losses=losses,
        )  # fmt: skip
        self.lives[live.id] = self._add[live.id] = live

    def wait_for_steps(self, run: Live, checkpoint: str) -> Live:
        """Release a run from its worker, to wait for its steps."""
        # The fence stays: without worker_id its holder can write nothing.
        waiting = replace(run, worker_id=None, waits_for=WaitsFor.STEPS, checkpoint=checkpoint, progress=None)
        self.alter(waiting)
        return waiting

    def hand_back(self, live: Live, run_at: datetime) -> None:
        """Return an attempt to the queue; no retry is used."""
        changed = {
            "run_at": run_at, "worker_id": None, "started_at": None, "version": None, "progress": None,
            "fence": live.fence + 1, "releases": live.releases + 1,
        }  # fmt: skip
        if live.step:  # a pause does not hold the steps of a run in progress
            waits_for = WaitsFor.TIME if run_at > self.now else None
            self.alter(replace(live, **changed, waits_for=waits_for))  # type: ignore[arg-type]
        else:
            self.requeue(live, **changed)

    def alter(self, live: Live) -> None:
        """Change a live row."""
        self.lives[live.id] = live
        (self._add if live.id in self._add else self._alter)[live.id] = live

    def requeue(self, live: Live, **changed: object) -> None:
        """Change a queued row, and its `waits_for` with it."""
        row = replace(live, **changed)  # type: ignore[arg-type]
        waits_for = WaitsFor.TURN if row.slot == WAITING_PLACE else self._wait(row, row.run_at)
        if waits_for is None and row.limit_key is not None:
            waits_for = WaitsFor.LIMIT
        self.alter(replace(row, waits_for=waits_for))

    def ask_to_stop(self, live: Live) -> None:
        if live.cancel_asked_at is None:
            self.alter(replace(live, cancel_asked_at=self.now, cancel_by=self.by))

    def stop(self, live: Live) -> None:
        """Ask a run to stop. One that waits for steps, but has no live ones, ends at once."""
        self.stop_steps(live)
        if live.waits_for is WaitsFor.STEPS and not self.steps_of(live):
            self.call_off(self.lives[live.id])

    def stop_steps(self, run: Live) -> None:
        """Ask a run and its steps to stop; waiting steps are taken back."""
        self.ask_to_stop(run)
        for step in self.steps_of(run) if run.waits_for is WaitsFor.STEPS else ():
            if step.worker_id is not None:
                self.ask_to_stop(step)
            else:
                self.call_off(step)

    # -- the record

    def end(self, live: Live, outcome: End) -> Execution:
        """Move an execution from `live` into history, and count it."""
        result = outcome.result if isinstance(outcome, Completed) else None
        by = outcome.by if isinstance(outcome, Cancelled) else ""
        return self._record(live, outcome.kind, outcome.error, result, by)

    def call_off(self, live: Live, by: str | None = None) -> Execution:
        """End an execution that a person or the schedule took back: cancelled, without an error."""
        return self._record(live, OutcomeKind.CANCELLED, by=self.by if by is None else by)

    def _record(
        self,
        live: Live,
        outcome: OutcomeKind,
        error: Error | None = None,
        result: str | None = None,
        by: str = "",
    ) -> Execution:
        finished_at = self.now if live.started_at is None else max(self.now, live.started_at)
        ended = ended_from(live, finished_at=finished_at, outcome=outcome, error=error, result=result, by=by)
        self._ended.append(ended)
        self._remove(live)
        if live.slot is not None:
            setattr(self.facts, outcome.value, getattr(self.facts, outcome.value) + 1)
        return ended

    def withdraw(self, live: Live, reason: SkipReason | None) -> None:
        """Take a queued execution back. Its due time keeps exactly one record."""
        first = live.attempt == 0 and live.asked is AskedBy.SCHEDULE
        if first and live.due_at > self.now:
            self._unfire(live)
        elif first and reason is not None:
            self._remove(live)
            self.skip(reason, live.due_at, live.due_at, 1)
        else:
            self.call_off(live)

    def skip(
        self,
        reason: SkipReason,
        first: datetime,
        last: datetime,
        count: int,
        in_the_way: UUID | None = None,
    ) -> None:
        """Record due times that are not run."""
        before = self.facts.last_due_at
        follows = before if before is not None and before < first else None
        self._skips.append(
            Skip(self.chance.id(self.now), self.id, reason, first, last, count, self.now, in_the_way, follows)
        )
        self.facts.skipped += count
        self.dealt_with(last)

    def skip_between(self, reason: SkipReason, after: datetime, until: datetime) -> None:
        """Record every due time d with after < d <= until, if there is one."""
        first = next_due(self.definition, self.facts, after)
        last = newest_due(self.definition, self.facts, until, after)
        if first is not None and last is not None:
            self.skip(reason, first, last, count_due(self.definition, self.facts, after, until))

    def cut_back(self, skip: Skip) -> None:
        """End a skip at now: its later due times have not come yet."""
        floor, facts, schedule = skip.first_due_at - INSTANT, self.facts, self.definition.schedule
        if isinstance(schedule, Every):
            facts = replace(facts, anchor=skip.first_due_at - schedule.period)  # its grid, not a later one
        last = newest_due(self.definition, facts, self.now, floor)
        count = count_due(self.definition, facts, floor, self.now)
        self._rewritten.append(replace(skip, last_due_at=last or skip.first_due_at, count=count))
        self.facts.skipped -= skip.count - count

    def dealt_with(self, due: datetime) -> None:
        """Remember the greatest due time that has its record."""
        last = self.facts.last_due_at
        self.facts.last_due_at = due if last is None else max(last, due)

    def tell(self, kind: str, execution_id: UUID | None = None, **data: object) -> None:
        """Record an event, for facts that no other row records."""
        text = json.dumps(data, default=str, sort_keys=True) if data else "{}"
        self._events.append(
            Event(self.chance.id(self.now), self.now, kind, self.id, execution_id, by=self.by, data=text)
        )

    # -- internals

    def _start_of(self, due_at: datetime) -> datetime:
        """Return the earliest start of the first attempt at a due time."""
        policies = self.definition.policies
        run_at = due_at
        if policies.jitter:
            run_at += when.jitter(policies.jitter, str(self.id), due_at)
        earliest = max(run_at, self.now)
        opening = self.opening(earliest)
        return run_at if opening == earliest else opening

    def _wait(self, row: Live | Execution, run_at: datetime) -> WaitsFor | None:
        if self.held_by_pause(row):
            return WaitsFor.RESUME
        return WaitsFor.TIME if run_at > self.now else None

    def _queue(self, *, args: str | None, waits_for: WaitsFor | None, **row: object) -> None:
        self.facts.last_execution_number += 1
        key = limit_key(self.definition, args)
        if waits_for is None and key is not None:
            waits_for = WaitsFor.LIMIT
        live = Live(
            id=self.chance.id(self.now),
            job_id=self.id,
            execution_number=self.facts.last_execution_number,
            queued_at=self.now,
            queue=self.definition.queue,
            priority=self.definition.priority,
            task=self.definition.task,
            args=args,
            waits_for=waits_for,
            limit_key=key,
            **row,  # type: ignore[arg-type]
        )
        self.lives[live.id] = self._add[live.id] = live

    def _remove(self, live: Live) -> None:
        self.lives.pop(live.id, None)
        self._alter.pop(live.id, None)
        if self._add.pop(live.id, None) is None:
            self._drop.append(live.id)

    def _unfire(self, live: Live) -> None:
        """Undo the firing of a row whose due time has not come."""
        self._remove(live)
        facts = self.facts
        if facts.last_due_at == live.due_at:
            before = live.due_at - INSTANT
            facts.last_due_at = newest_due(self.definition, facts, before, facts.anchor) or facts.anchor


# -- The steps of a run: executions of their own that a task queues instead of doing the work itself.
#
# A run is a live row of its job that no worker holds. It waits for its steps, keeps the job's slot, and stores its
# progress in its checkpoint. A step is a live row of its own, without a slot, with the run's number and a name. Workers
# claim and settle it like any other row. When no step is live any more, the run is over, and its outcome is settled
# like
# any other. Counters, retries and the schedule follow the run alone.
#
#     claimed ──► Begun ──► waits for its steps ──► step settled ──► other steps queued
#                                     ▲                   │
#                                     └───────────────────┴─ none live any more ──► Completed, Failed, TimedOut,
# Cancelled
#
# The rules of its task decide which steps a run has, and its outcome. The store reads what they need in the transaction
# (a `RunPlan`). A process without these rules leaves the run to others. A run in progress finishes when its job is
# paused, as every run does.

LEAST_DEFERRAL: Final = timedelta(seconds=1)

Over = tuple[Live, Outcome] | None  # the run and its outcome; None while it goes on
TimeOut = Callable[[Draft, Live], Over]


class RunPlan(Protocol):
    """The rules of a task about one run, with what they need of the database. They are pure."""

    def begin(self, draft: Draft, run: Live) -> Over:
        """Begin a run that its worker has released: queue its first steps."""
        ...

    def step_ended(self, draft: Draft, run: Live, step: Live, outcome: Outcome) -> Over:
        """Apply the outcome of a step, and queue the steps after it."""
        ...


def hand_back(draft: Draft, step: Live, outcome: Interrupted | Deferred) -> None:
    """Return a step to the queue; no retry is used."""
    at = max(outcome.until, draft.now + LEAST_DEFERRAL) if isinstance(outcome, Deferred) else step.run_at
    draft.hand_back(step, at)


def end(draft: Draft, step: Live, outcome: Outcome) -> Execution:
    """Move a step into history; a released one whose run has stopped is called off."""
    if isinstance(outcome, Lost):
        draft.tell(
            "execution.lost", step.id, number=step.number, attempt=step.attempt, note=outcome.note, step=step.step
        )
    return draft.call_off(step, "") if isinstance(outcome, Release) else draft.end(step, outcome)
