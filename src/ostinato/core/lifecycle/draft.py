"""A change in the making: what the rules have in common.

A rule makes a Draft from what it was given, works on it and returns `draft.change()`. The draft holds its
own copy of the facts and of the live rows, so a rule stays a function from values to a value.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core import schedule as when
from ostinato.core.lifecycle import timeline
from ostinato.core.model import (
    RUN_SLOT,
    WAITING_PLACE,
    Asked,
    Change,
    Definition,
    Ending,
    Event,
    Execution,
    Facts,
    Job,
    Live,
    Luck,
    Result,
    Skip,
    SkipReason,
    WaitsFor,
)
from ostinato.core.policy import CatchUp, Overlap
from ostinato.core.schedule import Every

FIRED_AHEAD = timedelta(seconds=1)  # a row that starts within this is already in the queue


class Draft:
    """What becomes of one job."""

    def __init__(self, job: Job, lives: Sequence[Live], now: datetime, luck: Luck, by: str = "") -> None:
        self.id: UUID = job.id
        self.definition: Definition = job.definition
        self.facts: Facts = replace(job.facts)
        self.now, self.luck, self.by = now, luck, by
        self.lives: dict[UUID, Live] = {live.id: live for live in lives}
        self._add: dict[UUID, Live] = {}
        self._alter: dict[UUID, Live] = {}
        self._drop: list[UUID] = []
        self._ended: list[Execution] = []
        self._skips: list[Skip] = []
        self._events: list[Event] = []
        self._rewritten: list[Skip] = []

    def change(self) -> Change:
        """What was decided."""
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
    def open(self) -> bool:
        """Whether the schedule may put anything into the queue."""
        facts = self.facts
        return not (facts.paused_at or facts.cancelled_at or facts.ended_at or facts.deleted_at)

    @property
    def gone(self) -> bool:
        return self.facts.cancelled_at is not None or self.facts.deleted_at is not None

    def occurrences(self) -> list[Live]:
        """The live rows that stand for an occurrence (a workflow's steps do not)."""
        return [live for live in self.lives.values() if live.slot is not None]

    def waiting(self) -> Live | None:
        """Who has the waiting place."""
        return next((live for live in self.lives.values() if live.slot == WAITING_PLACE), None)

    def free_slot(self) -> int | None:
        """A slot to run in, if there is one."""
        policies = self.definition.policies
        slots = policies.max_overlap if policies.overlap is Overlap.ALLOW else 1
        taken = {live.slot for live in self.lives.values()}
        return next((slot for slot in range(slots) if slot not in taken), None)

    # -- the queue

    def queue_first(
        self, due_at: datetime, asked: Asked, slot: int = RUN_SLOT, args: str | None = None
    ) -> Live:
        """The first attempt at a new occurrence."""
        self.facts.last_number += 1
        run_at, waits_for = self._start_of(due_at, asked)
        if slot == WAITING_PLACE:
            waits_for = WaitsFor.TURN
        return self._queue(
            number=self.facts.last_number, attempt=0, due_at=due_at, asked=asked, run_at=run_at,
            slot=slot, waits_for=waits_for, args=args,
        )  # fmt: skip

    def queue_again(
        self, ended: Execution | Live, run_at: datetime, slot: int | None, **carried: int
    ) -> Live:
        """The next attempt at an occurrence; what belongs to the occurrence is handed on."""
        window = self.definition.policies.window
        if window is not None:
            run_at = window.next_opening(run_at)
        waits_for = WaitsFor.TIME if run_at > self.now else None
        if self.facts.paused_at is not None and not self.recurring:
            waits_for = WaitsFor.RESUME
        return self._queue(
            number=ended.number, attempt=ended.attempt + 1, due_at=ended.due_at, asked=ended.asked,
            run_at=run_at, slot=slot, waits_for=waits_for, args=ended.args, step=ended.step,
            checkpoint=ended.checkpoint, releases=ended.releases,
            **{"failures": ended.failures, "losses": ended.losses} | carried,
        )  # fmt: skip

    def alter(self, live: Live) -> None:
        """Change a live row."""
        self.lives[live.id] = live
        (self._add if live.id in self._add else self._alter)[live.id] = live

    def let_in(self, live: Live, slot: int) -> None:
        """Give the one in the waiting place its turn."""
        waits_for = WaitsFor.TIME if live.run_at > self.now else None
        self.alter(replace(live, slot=slot, waits_for=waits_for))

    def ask_to_stop(self, live: Live) -> None:
        if live.cancel_asked_at is None:
            self.alter(replace(live, cancel_asked_at=self.now, cancel_by=self.by))

    # -- the record

    def end(
        self,
        live: Live,
        result: Result,
        *,
        value: str | None = None,
        error: tuple[str, str, str | None] | None = None,
        by: str = "",
    ) -> Execution:
        """Move an execution from `live` into history, and count it."""
        kind, message, traceback = error or (None, None, None)
        ended = Execution(
            id=live.id, job_id=self.id, number=live.number, step=live.step, attempt=live.attempt,
            execution_number=live.execution_number, asked=live.asked, due_at=live.due_at, run_at=live.run_at,
            queued_at=live.queued_at, started_at=live.started_at, finished_at=self.now, result=result,
            task=live.task, queue=live.queue, worker_id=live.worker_id, fence=live.fence, version=live.version,
            args=live.args, value=value, error_kind=kind, error=message, traceback=traceback,
            failures=live.failures, losses=live.losses, releases=live.releases, checkpoint=live.checkpoint, by=by,
        )  # fmt: skip
        self._ended.append(ended)
        self._remove(live)
        if live.slot is not None:
            setattr(self.facts, result.value, getattr(self.facts, result.value) + 1)
        return ended

    def withdraw(self, live: Live, reason: SkipReason | None) -> None:
        """Take a queued execution back. Its due time keeps exactly one record."""
        first = live.attempt == 0 and live.asked is Asked.SCHEDULE
        if first and live.due_at > self.now:
            self._unfire(live)
        elif first and reason is not None:
            self._remove(live)
            self.skip(reason, live.due_at, live.due_at, 1, moves=False)
        else:
            self.end(live, Result.CANCELLED, by=self.by)

    def skip(
        self,
        reason: SkipReason,
        first: datetime,
        last: datetime,
        count: int,
        in_the_way: UUID | None = None,
        moves: bool = True,
    ) -> None:
        """Record due times that are not run; `moves` when they come after what was dealt with so far."""
        follows = self.facts.last_due_at if moves else None
        self._skips.append(
            Skip(self.luck.id(self.now), self.id, reason, first, last, count, self.now, in_the_way, follows)
        )
        self.facts.skipped += count
        if moves:
            self.dealt_with(last)

    def skip_between(self, reason: SkipReason, after: datetime, until: datetime) -> None:
        """Record every due time d with after < d <= until, if there is one."""
        count = timeline.count_due(self.definition, self.facts, after, until)
        first = timeline.next_due(self.definition, self.facts, after)
        last = timeline.newest_due(self.definition, self.facts, until, after)
        if count and first is not None and last is not None:
            self.skip(reason, first, last, count)

    def cut_back(self, skip: Skip) -> None:
        """End a skip at now: its later due times have not come yet."""
        floor = skip.first_due_at - timeline.INSTANT
        last = timeline.newest_due(self.definition, self.facts, self.now, floor)
        count = timeline.count_due(self.definition, self.facts, floor, self.now) if last else 0
        self._rewritten.append(replace(skip, last_due_at=last or skip.first_due_at, count=count))
        self.facts.skipped -= skip.count - count

    def dealt_with(self, due: datetime) -> None:
        """Remember the greatest due time that has its record."""
        last = self.facts.last_due_at
        self.facts.last_due_at = due if last is None else max(last, due)

    def tell(self, kind: str, execution_id: UUID | None = None, **data: object) -> None:
        """Leave an event: only for what no other row tells."""
        text = json.dumps(data, default=str, sort_keys=True) if data else "{}"
        self._events.append(
            Event(self.luck.id(self.now), self.now, kind, self.id, execution_id, by=self.by, data=text)
        )

    # -- what comes next

    def name_next(self, after: datetime) -> None:
        """Set the next due time, unless the settle of what is live must name it."""
        self.facts.computed_at = self.now
        self.facts.next_due_at = None
        if not self.open or self._held_by_repeats() or (self.definition.policies.fixed_delay and self.lives):
            return
        due = timeline.next_due(self.definition, self.facts, after)
        if due is not None and due <= self.now and self.occurrences() and self._one_by_one():
            return
        self.facts.next_due_at = due

    def go_on(self) -> None:
        """Something of this job has ended: name the next time if nobody has, and end what has come to its end."""
        facts = self.facts
        if self.open and facts.next_due_at is None and facts.ended_as is None:
            if facts.reset_at is not None:
                facts.next_due_at = None if self.lives else max(facts.reset_at, self.now)
            elif self.recurring:
                self._name_after_a_pause_in_naming()
        self.end_if_over()

    def end_if_over(self) -> None:
        """A schedule without a next time and without anything live has come to its end."""
        facts = self.facts
        if self.lives or self.gone or facts.ended_at is not None or facts.next_due_at or facts.reset_at:
            return
        if self._may_still_come():
            return
        self.end_job(facts.ended_as or Ending.COMPLETED)

    def _may_still_come(self) -> bool:
        """What has no next time now but may get one: by hand, or by a resume."""
        match self.definition.schedule:
            case when.Manual():
                return True
            case when.Once():
                return self.facts.last_due_at is None
            case _:
                return self.facts.paused_at is not None and self.facts.ended_as is None

    def end_job(self, ending: Ending) -> None:
        self.facts.ended_at, self.facts.ended_as = self.now, ending
        self.facts.next_due_at = self.facts.reset_at = None

    # -- within

    def _name_after_a_pause_in_naming(self) -> None:
        facts = self.facts
        if self.definition.policies.fixed_delay:
            if self.lives:
                return
            facts.anchor = self.now
            self.name_next(self.now)
        else:
            self.name_next(facts.last_due_at or facts.anchor)

    def _one_by_one(self) -> bool:
        return self.definition.policies.catch_up is CatchUp.ALL

    def _held_by_repeats(self) -> bool:
        """Nothing is fired that could exceed `total_repeats`."""
        total = self.definition.policies.total_repeats
        under_way = sum(live.asked is Asked.SCHEDULE for live in self.occurrences())
        return total > 0 and under_way > 0 and self.facts.repeats_done + under_way >= total

    def _start_of(self, due_at: datetime, asked: Asked) -> tuple[datetime, WaitsFor | None]:
        """When a first attempt may start, and what it waits for until then."""
        policies = self.definition.policies
        run_at = due_at
        if asked is Asked.SCHEDULE and policies.jitter:
            run_at += when.jitter(policies.jitter, str(self.id), due_at)
        if asked is Asked.SCHEDULE and policies.window is not None:
            run_at = max(run_at, policies.window.next_opening(max(run_at, self.now)))
        return run_at, WaitsFor.TIME if run_at - self.now > FIRED_AHEAD else None

    def _queue(self, **row: object) -> Live:
        self.facts.last_execution_number += 1
        live = Live(
            id=self.luck.id(self.now),
            job_id=self.id,
            execution_number=self.facts.last_execution_number,
            queued_at=self.now,
            queue=self.definition.queue,
            priority=self.definition.priority,
            task=self.definition.task,
            **row,  # type: ignore[arg-type]
        )
        self.lives[live.id] = self._add[live.id] = live
        return live

    def _remove(self, live: Live) -> None:
        self.lives.pop(live.id, None)
        self._alter.pop(live.id, None)
        if self._add.pop(live.id, None) is None:
            self._drop.append(live.id)

    def _unfire(self, live: Live) -> None:
        """Fired ahead of its time, which has not come: as if it had not been fired."""
        self._remove(live)
        if self.facts.last_due_at == live.due_at:
            before = list(_before(self.definition, self.facts, live.due_at))
            self.facts.last_due_at = before[0] if before else None


def _before(definition: Definition, facts: Facts, due: datetime) -> Iterator[datetime]:
    if isinstance(definition.schedule, Every) and due - definition.schedule.period > facts.anchor:
        yield due - definition.schedule.period
    elif not isinstance(definition.schedule, Every):
        floor = facts.created_at - timeline.INSTANT
        earlier = timeline.newest_due(definition, facts, due - timeline.INSTANT, floor)
        if earlier is not None:
            yield earlier
