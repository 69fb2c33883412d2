"""The life of one job in memory: rules are applied, their changes kept.

Not a store: no locks, no transactions, nothing but a fold over `Change`. `turn` is the dispatcher, `claim`
and `settle` the worker, everything else a person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ostinato.core import lifecycle
from ostinato.core.lifecycle import Dealt, due_times
from ostinato.core.lifecycle.fast_path import fire_plainly, last_time, may_be_plain
from ostinato.core.model import (
    WAITING_PLACE,
    AskedBy,
    Change,
    Definition,
    Ending,
    Event,
    Execution,
    Facts,
    Finished,
    Job,
    Live,
    Skip,
    Status,
    WaitsFor,
)
from ostinato.core.outcome import Completed, Error, Failed, Lost, Outcome, OutcomeKind
from ostinato.core.policy import Policies
from ostinato.core.schedule import is_recurring
from tests.build import HOUR, NOW, POLICIES, WORKER, FixedChance, a_definition

UNSUCCESSFUL = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST)
SUCCESS = Completed()
FAILURE = Failed(Error("ValueError", "no"))
STOPPERS = ("cancelled_at", "ended_as", "deleted_at")


def hours(*numbers: int) -> list[datetime]:
    """Due times of a job that was made at NOW and comes every hour."""
    return [NOW + n * HOUR for n in numbers]


@dataclass
class Stretch:
    """A span of time, `(since, until]`, in which the due times followed from one definition and anchor."""

    job: Job
    facts: Facts
    since: datetime
    until: datetime | None = None
    due_at_once: bool = False

    @property
    def definition(self) -> Definition:
        return self.job.definition

    @property
    def shape(self) -> tuple[object, ...]:
        return _shape(self.job)

    @property
    def has_grid(self) -> bool:
        return is_recurring(self.definition.schedule) and not self.definition.policies.fixed_delay

    def count(self, after: datetime, until: datetime) -> int:
        after, until = max(after, self.since), until if self.until is None else min(until, self.until)
        return due_times.count_due(self.definition, self.facts, after, until) if until > after else 0


def is_plain(last: datetime | None, last_due_at: datetime | None, *, names_next: bool) -> bool:
    """Say what `expected` in store/queries/fast_path.sql asks of a job that no person has touched.

    `last` is its `last_time`, `names_next`: it has a next due time.
    """
    if last is None:
        return names_next
    return not names_next and last_due_at is not None and last_due_at >= last


def plainly(job: Job, rows: Sequence[Live], live: Live, outcome: Outcome, now: datetime) -> Facts | None:
    """The facts as store/fast_path.py would leave them; None when it would leave this to the rule."""
    facts = job.facts
    touched = (
        facts.paused_at, facts.cancelled_at, facts.ended_as, facts.deleted_at, facts.reset_at, live.cancel_asked_at
    )  # fmt: skip
    newer = facts.last_execution_number > live.execution_number
    if any(touched) or newer or len(rows) > 1 or not may_be_plain(Finished(live, outcome, now, job.definition)):
        return None
    last = last_time(job.definition)
    if not is_plain(last, facts.last_due_at, names_next=facts.next_due_at is not None):
        return None
    ending = {} if last is None else {"ended_at": now, "ended_as": Ending.COMPLETED}
    repeats = facts.repeats_done + (live.asked is AskedBy.SCHEDULE)
    return replace(facts, completed=facts.completed + 1, repeats_done=repeats, **ending)


def _compare_with_the_shortcut(change: Change, shortcut: Facts | None, live: Live) -> None:
    if shortcut is not None:
        (ended,) = change.ended
        assert change.job.facts == shortcut
        assert (ended.id, ended.outcome, ended.by, ended.error) == (live.id, OutcomeKind.COMPLETED, "", None)
        assert change == Change(change.job, drop=(live.id,), ended=change.ended)


class Life:
    """A job, its live rows, its history, and the time."""

    def __init__(
        self, definition: Definition | None = None, *, seed: int = 0, bounded: bool = False, **given: object
    ) -> None:
        self.now, self.chance = NOW, FixedChance(seed)
        self.lives: dict[UUID, Live] = {}
        self.executions: list[Execution] = []
        self.skips: list[Skip] = []
        self.events: list[Event] = []
        self.stretches: list[Stretch] = []
        self.statuses: list[tuple[Status, Status, Facts]] = []
        self.definitions: list[Definition] = []  # every version
        self.retried: set[int] = set()  # numbers of occurrences with more than one budget
        self.started_by_hand: set[UUID] = set()
        self.job: Job = None  # type: ignore[assignment]
        wanted = definition or a_definition(**given)
        self._save(lifecycle.create(self.chance.id(NOW), wanted, NOW, self.chance, "me", bounded))

    # -- questions

    @property
    def facts(self) -> Facts:
        return self.job.facts

    @property
    def status(self) -> Status:
        return lifecycle.status(self.job, self.rows)

    @property
    def rows(self) -> list[Live]:
        return list(self.lives.values())

    @property
    def only(self) -> Live:
        (live,) = self.lives.values()
        return live

    @property
    def running(self) -> list[Live]:
        return [live for live in self.rows if live.running]

    @property
    def waiting(self) -> Live | None:
        return next((live for live in self.rows if live.slot == WAITING_PLACE), None)

    @property
    def startable(self) -> list[Live]:
        rows = [live for live in self.rows if not live.running and live.run_at <= self.now]
        return [live for live in rows if live.waits_for in (None, WaitsFor.TIME)]

    @property
    def results(self) -> list[tuple[int, int, OutcomeKind]]:
        return [(each.number, each.attempt, each.outcome) for each in self.executions]

    @property
    def skipped(self) -> list[tuple[str, datetime, datetime, int]]:
        """The skips as the store keeps them: one that continues the last extends its row."""
        kept: list[Skip] = []
        for skip in self.skips:
            for i, earlier in enumerate(kept):
                if (earlier.reason, earlier.last_due_at, earlier.in_the_way) == (
                    skip.reason,
                    skip.follows,
                    skip.in_the_way,
                ):
                    longer = earlier.count + skip.count
                    kept[i] = replace(earlier, last_due_at=skip.last_due_at, count=longer)
                    break
            else:
                kept.append(skip)
        return [(s.reason.value, s.first_due_at, s.last_due_at, s.count) for s in kept]

    @property
    def told(self) -> list[str]:
        """What was told after the birth."""
        return [event.kind for event in self.events if event.kind != "job.created"]

    # -- the dispatcher

    def advance(self, by: timedelta) -> None:
        """Time passes, and nobody is there to see it."""
        self.now += by

    def turn(self, by: timedelta = timedelta(0), ahead: timedelta = timedelta(0)) -> int:
        """Time passes; then everything that is due is fired."""
        self.advance(by)
        steps = 0
        while self._is_due(ahead):
            before = self.facts
            self.fire()
            if self.facts == before:
                break  # too early
            steps += 1
            assert steps < 1000, "firing does not come to an end"
        return steps

    def fire(self) -> None:
        change = lifecycle.fire(self.job, self.rows, self.now, self.chance, self._dealt(), self.last_failed())
        if not self.rows and (short := fire_plainly(self.job, self.now, FixedChance())) is not None:
            (live,) = change.add
            assert replace(short, add=(replace(short.add[0], id=live.id),)) == change
        self._save(change)

    def rewind(self) -> None:
        ahead = [skip for skip in self.skips if skip.last_due_at > self.now]
        self._save(lifecycle.rewind(self.job, self.rows, self.now, self.chance, ahead))

    def last_failed(self) -> Execution | None:
        """The newest failed occurrence, as its last attempt left it; of the schedule's, if that recurs."""
        latest = {each.number: each for each in sorted(self.executions, key=lambda each: each.attempt)}
        failed = [
            each
            for each in latest.values()
            if each.outcome in UNSUCCESSFUL and (each.asked is AskedBy.SCHEDULE or not is_recurring(self.job.schedule))
        ]
        return max(failed, key=lambda each: (each.finished_at, each.execution_number), default=None)

    # -- the worker

    def pass_gate(self) -> None:
        """Whoever waits for a place of its limit gets one."""
        waiting = [live for live in self.rows if live.waits_for is WaitsFor.LIMIT]
        self._save(Change(self.job, alter=tuple(replace(live, waits_for=None) for live in waiting)))

    def claim(self) -> Live:
        """Start what may start first."""
        live = min(self.startable, key=lambda live: live.run_at)
        return self.start(live)

    def start(self, live: Live) -> Live:
        claimed = replace(
            live, worker_id=WORKER, started_at=self.now, waits_for=None, fence=live.fence + 1,
            version=self.facts.version,
        )  # fmt: skip
        self._save(Change(self.job, alter=(claimed,)))
        return claimed

    def settle(self, outcome: Outcome = SUCCESS, live: Live | None = None) -> None:
        live = self.lives[live.id] if live else self.running[0]
        change = lifecycle.settle(self.job, self.rows, live, outcome, self.now, self.chance)
        _compare_with_the_shortcut(change, plainly(self.job, self.rows, live, outcome, self.now), live)
        self._save(change)

    def run_one(self, outcome: Outcome = SUCCESS, took: timedelta = timedelta(0)) -> None:
        """Claim one, and settle it."""
        live = self.claim()
        self.advance(took)
        self.settle(outcome, live)

    def fail(self, took: timedelta = timedelta(0)) -> None:
        self.run_one(FAILURE, took)

    def lose(self) -> None:
        self.run_one(Lost())

    def retry_comes(self) -> None:
        """Wait until the only row may start; nothing else comes due meanwhile, or it is not looked at."""
        self.now = max(self.now, self.only.run_at)

    # -- people

    def pause(self) -> None:
        self._ask(lifecycle.pause)

    def resume(self) -> None:
        self._ask(lifecycle.resume)

    def cancel(self) -> None:
        self._ask(lifecycle.cancel)

    def delete(self) -> None:
        self._ask(lifecycle.delete)

    def restart(self) -> None:
        self._ask(lifecycle.restart)

    def retry(self) -> None:
        last = self.last_failed()
        self._save(lifecycle.retry(self.job, self.rows, last, self.now, self.chance, "me"))

    def run(self, args: str | None = None) -> None:
        self._save(lifecycle.run(self.job, self.rows, args, self.now, self.chance, "me"), by_hand=True)

    def edit(self, **changed: Any) -> None:
        """Change fields of the definition or of its policies."""
        own = {name: changed.pop(name) for name in POLICIES & changed.keys()}
        policies: Policies = replace(self.job.policies, **own)
        wanted = replace(self.job.definition, policies=policies, **changed)
        self._save(lifecycle.edit(self.job, self.rows, wanted, self.now, self.chance, "me"))

    def cancel_execution(self, live: Live, force: bool = False) -> None:
        live = self.lives[live.id]
        self._save(lifecycle.cancel_execution(self.job, self.rows, live, self.now, self.chance, "me", force))

    def release(self, live: Live) -> None:
        self._save(lifecycle.release(self.job, self.rows, live, self.now, self.chance, "me"))

    # -- within

    def _ask(self, command: Callable[..., Change]) -> None:
        self._save(command(self.job, self.rows, self.now, self.chance, "me"))

    def _is_due(self, ahead: timedelta) -> bool:
        due = self.facts.next_due_at
        if due is None or due > self.now + ahead:
            return False
        return due <= self.now or not self.lives

    def _dealt(self) -> Dealt:
        times = [each for each in [*self.executions, *self.rows] if each.asked is AskedBy.SCHEDULE]
        ranges = tuple((skip.first_due_at, skip.last_due_at) for skip in self.skips)
        return Dealt(frozenset(each.due_at for each in times), ranges)

    def _save(self, change: Change, by_hand: bool = False) -> None:
        before = None if self.job is None else (self.job, self.status)
        self._check_rows(change)
        for live_id in change.drop:
            del self.lives[live_id]
        for live in (*change.alter, *change.add):
            self.lives[live.id] = live
        if by_hand:
            self.started_by_hand |= {live.id for live in (*change.alter, *change.add)}
        self.job = change.job
        if not self.definitions or self.definitions[-1] != self.job.definition:
            self.definitions.append(self.job.definition)
        self.executions += change.ended
        self.skips += change.skips
        self._rewrite(change)
        self.events += change.events
        self.retried |= {live.number for live in change.add if live.attempt and not live.failures + live.losses}
        self._draw_stretches(None if before is None else before[0], change)
        if before is not None:
            self.statuses.append((before[1], self.status, before[0].facts))

    def _check_rows(self, change: Change) -> None:
        altered, added = {live.id for live in change.alter}, {live.id for live in change.add}
        assert altered <= self.lives.keys(), "alters what is not there"
        assert set(change.drop) <= self.lives.keys(), "drops what is not there"
        assert not added & self.lives.keys(), "adds what is there already"
        assert not altered & set(change.drop), "alters what it drops"
        assert {each.id for each in change.ended} <= set(change.drop), "ends what stays live"

    def _rewrite(self, change: Change) -> None:
        shorter = {skip.id: skip for skip in change.rewritten}
        self.skips = [shorter.get(skip.id, skip) for skip in self.skips]
        self.skips = [skip for skip in self.skips if skip.count]

    def _draw_stretches(self, before: Job | None, change: Change) -> None:
        stopped = any(getattr(self.facts, name) is not None for name in STOPPERS)
        was_stopped = before is None or any(getattr(before.facts, name) is not None for name in STOPPERS)
        moved = before is None or _shape(before) != _shape(self.job)
        current = self.stretches[-1] if self.stretches else None
        if current is not None and (stopped or moved) and current.until is None:
            current.until = self.now
        waits, waited = self.facts.first_run_waits, before is not None and before.facts.first_run_waits
        if current is not None and moved and waited:
            current.due_at_once = False  # its first run is the new schedule's
        if stopped or not (moved or was_stopped):
            return
        kinds = [event.kind for event in change.events]
        if "job.retried" in kinds and current is not None and current.shape == _shape(self.job):
            current.until = None  # the gap is a skip: as if it had never stopped
            return
        since = self.facts.anchor if "job.retried" in kinds else self.now
        born = before is None or "job.restarted" in kinds
        fired = [live.due_at for live in change.add] + [skip.first_due_at for skip in change.skips]
        at_once = (born or waited) and (waits or self.now in fired)
        self.stretches.append(Stretch(self.job, replace(self.facts), since, None, at_once))


def _shape(job: Job) -> tuple[object, ...]:
    policies = job.policies
    return job.schedule, policies.start_at, policies.end_at, policies.fixed_delay, job.facts.anchor
