"""Adoption of a job from another system: with its id, pause, next time, counters, retry state and history.

The other system has numbered nothing as we do. Its runs become occurrences here: an attempt that follows the one before
it belongs to the same occurrence. What was counted there and is not brought along counts as removed by retention, so
that counters equal history and the rest (G9), and no due time before the adoption is recomputed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Final
from uuid import UUID

from ostinato.core import schedule as when
from ostinato.core.lifecycle import next_time
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.lifecycle.due_times import INSTANT, first_anchor
from ostinato.core.model import (
    EPOCH,
    MICROSECOND,
    RUN_SLOT,
    AskedBy,
    Chance,
    Change,
    Definition,
    Ending,
    Execution,
    Facts,
    Job,
    Json,
    WaitsFor,
)
from ostinato.core.outcome import OutcomeKind
from ostinato.core.policy import WhenExhausted
from ostinato.core.schedule import Every, Once, to_json

ADOPTED: Final = "job.imported"
RETRIED: Final = (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that ended in the other system."""

    started_at: datetime
    finished_at: datetime
    outcome: OutcomeKind
    attempt: int = 0
    execution_number: int | None = None  # as it was counted there
    result: Json | None = None
    error: str | None = None
    traceback: str | None = None
    account: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerState:
    """The state of a job in the other system; fields that it does not have keep their defaults."""

    created_at: datetime | None = None
    next_at: datetime | None = None
    last_at: datetime | None = None  # start of its newest run
    paused_at: datetime | None = None
    cancelled_at: datetime | None = None
    ended_at: datetime | None = None
    ended_as: Ending | None = None
    counted: Mapping[OutcomeKind, int] = field(default_factory=dict)  # all runs, those in `runs` included
    repeats_done: int = 0
    failures: int = 0  # of the occurrence that waits for its next attempt, at `next_at`
    period_start: datetime | None = None
    period_failures: int = 0
    runs: Sequence[PastRun] = ()

    @property
    def is_over(self) -> bool:
        return self.cancelled_at is not None or self.ended_at is not None


@dataclass(frozen=True, slots=True)
class Adopted:
    """An adopted job, and the note of what is counted without a record (`pruned` of its row)."""

    change: Change
    pruned: Mapping[str, int]


def adopt(
    job_id: UUID,
    definition: Definition,
    state: FormerState,
    now: datetime,
    chance: Chance,
    by: str = "",
    name: str = "",
) -> Adopted:
    """Make a job from its definition and its former state. `name` is the import that it belongs to."""
    created = min(state.created_at or now, now)
    facts = Facts(created_at=created, updated_at=now, anchor=now)
    runs = _executions(job_id, definition, state, chance)
    _count(facts, state, runs)
    definition = _starting(definition, state, now)
    facts.anchor = _anchor(definition, state, now)
    draft = Draft(Job(job_id, definition, facts), (), now, chance, by)
    if state.is_over:
        _end(draft.facts, state, now)
    elif state.paused_at is not None:
        _pause(draft, min(state.paused_at, now))
    else:
        _go_on(draft, state, runs)
    draft.tell(
        ADOPTED, name=name, schedule=to_json(definition.schedule), anchor=draft.facts.anchor,
        next_due_at=draft.facts.next_due_at,
    )  # fmt: skip
    change = replace(draft.change(), ended=tuple(runs))
    return Adopted(change, _uncounted(change.job.facts, runs, now))


def _starting(definition: Definition, state: FormerState, now: datetime) -> Definition:
    """Let the schedule start at its next time there, if that is not the first one by the schedule itself."""
    policies, due = definition.policies, state.next_at
    if due is None or policies.start_at is not None or _retries(state) or not when.is_recurring(definition.schedule):
        return definition
    first = when.next_after(definition.schedule, now, now)
    if first is None or due <= first or not _is_due(definition, due):
        return definition
    return replace(definition, policies=replace(policies, start_at=due))


def _anchor(definition: Definition, state: FormerState, now: datetime) -> datetime:
    """Return the anchor that makes the job due next when it was due there; with a retry, later than that."""
    schedule, due = definition.schedule, state.next_at
    if due is None or state.is_over or state.paused_at is not None:
        return first_anchor(definition, now)
    if _retries(state):
        return max(due, now)
    if isinstance(schedule, Every):
        return due - schedule.period
    return due - INSTANT if _is_due(definition, due) else now


def _is_due(definition: Definition, at: datetime) -> bool:
    """Return True if a schedule may be due at an instant: an interval may, whenever it began."""
    if isinstance(definition.schedule, Every):
        return True
    return when.next_after(definition.schedule, at, at - INSTANT) == at


def _retries(state: FormerState) -> bool:
    return state.failures > 0 and state.next_at is not None


# -- former runs


def _executions(job_id: UUID, definition: Definition, state: FormerState, chance: Chance) -> list[Execution]:
    """Make the records of the former runs, the oldest first, with numbers that rise as theirs do."""
    runs = sorted(state.runs, key=lambda run: (run.started_at, run.attempt))
    numbered = _execution_numbers(runs, sum(state.counted.values()))
    made = list[Execution]()
    for run, execution_number in zip(runs, numbered, strict=True):
        before = made[-1] if made else None
        follows = before is not None and 0 < run.attempt == before.attempt + 1
        number = execution_number if before is None else before.number + (not follows)
        losses = before.losses + (before.outcome is OutcomeKind.LOST) if before is not None and follows else 0
        started, finished = run.started_at, max(run.started_at, run.finished_at)
        made.append(
            Execution(
                id=chance.id(started),
                job_id=job_id,
                number=number,
                step="",
                attempt=run.attempt,
                execution_number=execution_number,
                asked=AskedBy.SCHEDULE,
                due_at=started,
                run_at=started,
                queued_at=started,
                started_at=started,
                finished_at=finished,
                outcome=run.outcome,
                task=definition.task,
                queue=definition.queue,
                worker_id=None,
                fence=0,
                version=None,
                args=None,
                result=run.result,
                error_kind="Error" if run.error else None,
                error=run.error,
                traceback=run.traceback,
                failures=_failures(before, follows, run.attempt - losses),
                losses=losses,
                releases=0,
                checkpoint=None,
                by="",
                account=run.account,
            )
        )
    return made


def _failures(before: Execution | None, follows: bool, attempt: int) -> int:
    if before is None or not follows:
        return attempt
    return before.failures + (before.outcome in RETRIED)


def _execution_numbers(runs: Sequence[PastRun], total: int) -> list[int]:
    """Return their own numbers if they rise with time; else count up to the total."""
    theirs = [run.execution_number for run in runs]
    if all(number is not None and number > 0 for number in theirs):
        known = [number for number in theirs if number is not None]
        if all(earlier < later for earlier, later in pairwise(known)):
            return known
    first = max(total - len(runs), 0) + 1
    return list(range(first, first + len(runs)))


def _count(facts: Facts, state: FormerState, runs: Sequence[Execution]) -> None:
    for kind in OutcomeKind:
        there = sum(run.outcome is kind for run in runs)
        setattr(facts, kind.value, max(state.counted.get(kind, 0), there))
    facts.completed = max(facts.completed, state.repeats_done)
    facts.failed = max(facts.failed, state.failures)
    facts.repeats_done = state.repeats_done
    facts.period_start, facts.period_failures = state.period_start, state.period_failures
    total = sum(getattr(facts, kind.value) for kind in OutcomeKind)
    facts.last_execution_number = max([total, *(run.execution_number for run in runs[-1:])])
    facts.last_number = runs[-1].number if runs else total
    facts.last_due_at = max((run.due_at for run in runs), default=None)


def _uncounted(facts: Facts, runs: Sequence[Execution], now: datetime) -> Mapping[str, int]:
    """Return what is counted without a record, and until when records may be missing; empty without a past."""
    if not facts.last_number and facts.last_due_at is None:
        return {}
    counts = {kind.value: getattr(facts, kind.value) - sum(run.outcome is kind for run in runs) for kind in OutcomeKind}
    known = {name: count for name, count in counts.items() if count}
    return {**known, "until": (now - EPOCH) // MICROSECOND, "number": facts.last_number}


# -- live rows and state


def _end(facts: Facts, state: FormerState, now: datetime) -> None:
    facts.computed_at = now
    facts.cancelled_at = None if state.cancelled_at is None else min(state.cancelled_at, now)
    if state.ended_at is not None:
        facts.ended_at, facts.ended_as = min(state.ended_at, now), state.ended_as or Ending.COMPLETED


def _pause(draft: Draft, at: datetime) -> None:
    """Leave the job paused. The only run of a run-once job waits for the resume."""
    facts = draft.facts
    facts.computed_at = draft.now
    if draft.run_once and _is_over_due(draft):
        next_time.begin(draft)
        for live in draft.occurrences():
            draft.alter(replace(live, waits_for=WaitsFor.RESUME))
    facts.paused_at, facts.next_due_at = at, None


def _is_over_due(draft: Draft) -> bool:
    schedule = draft.definition.schedule
    return isinstance(schedule, Once) and schedule.at <= draft.now


def _go_on(draft: Draft, state: FormerState, runs: Sequence[Execution]) -> None:
    """Queue the attempt that was waiting, and name the next due time, which may be one that has passed."""
    if _waits_for_reset(draft):
        next_time.wait_for_reset(draft)
        return
    if _retries(state):
        last = _last_failure(draft, state, runs)
        draft.queue_again(last, state.next_at or draft.now, RUN_SLOT, failures=state.failures, losses=0)
        draft.dealt_with(last.due_at)
        next_time.name_next(draft, draft.dealt_until)
    elif draft.recurring and (state.next_at is not None or not draft.definition.policies.first_run.is_now):
        next_time.name_next(draft, draft.dealt_until)
    else:
        next_time.begin(draft)
    next_time.end_if_over(draft)


def _waits_for_reset(draft: Draft) -> bool:
    """Set the reset of a retry budget that is used up."""
    policies, facts = draft.definition.policies, draft.facts
    period, begun = policies.retry_reset_period, facts.period_start
    if policies.when_exhausted is not WhenExhausted.WAIT_RESET or period is None or begun is None:
        return False
    if facts.period_failures < policies.max_retries or begun + period <= draft.now:
        return False
    facts.reset_at = begun + period
    return True


def _last_failure(draft: Draft, state: FormerState, runs: Sequence[Execution]) -> Execution:
    """Return the failed attempt that the waiting one follows: the newest record, or one made from the counters."""
    if runs and runs[-1].outcome in RETRIED and runs[-1].failures + 1 == state.failures:
        return runs[-1]
    at = min(state.last_at or draft.now, draft.now, state.next_at or draft.now)
    failed = PastRun(started_at=at, finished_at=at, outcome=OutcomeKind.FAILED, attempt=state.failures - 1)
    (made,) = _executions(draft.id, draft.definition, FormerState(runs=(failed,)), draft.chance)
    draft.facts.last_number = max(draft.facts.last_number + bool(runs), 1)  # of an occurrence without a record
    return replace(made, number=draft.facts.last_number)
