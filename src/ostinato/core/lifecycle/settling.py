"""The settling of an execution with its outcome: history, counters, the next attempt and the next time, in one step."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

from ostinato.core import policy
from ostinato.core.lifecycle import draft as steps
from ostinato.core.lifecycle import next_time
from ostinato.core.lifecycle.draft import Draft, Over, RunPlan, TimeOut
from ostinato.core.lifecycle.due_times import backoff_of
from ostinato.core.model import MAX_LOSSES, AskedBy, Chance, Change, Ending, Execution, Job, Live, SkipReason
from ostinato.core.outcome import (
    Begun,
    Cancelled,
    Completed,
    Deferred,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.core.policy import Policies, WhenExhausted


def settle(
    job: Job,
    lives: Sequence[Live],
    live: Live,
    outcome: Outcome,
    now: datetime,
    chance: Chance,
    by: str = "",
    plan: RunPlan | None = None,
) -> Change:
    """Settle a running execution with its outcome. `lives` are all live rows of the job, this one included.

    `plan` has the rules of its steps: needed for the outcome of a step, and for a run that begins.
    """
    draft = Draft(job, lives, now, chance, by)
    come_to(draft, live, outcome, plan)
    return draft.change()


def time_out_run(
    job: Job, lives: Sequence[Live], run: Live, now: datetime, chance: Chance, time_out: TimeOut
) -> Change:
    """Time out a run that waits for its steps, by the rule of its task."""
    draft = Draft(job, lives, now, chance)
    over = time_out(draft, run)
    if over is not None:
        _end(draft, *over)
    return draft.change()


def come_to(draft: Draft, live: Live, outcome: Outcome, plan: RunPlan | None = None) -> None:
    """Apply an outcome, from a worker or from a person."""
    if isinstance(outcome, Interrupted) and outcome.started and draft.definition.policies.on_lost.ends:
        outcome = Lost("its worker was stopped")
    if live.step:
        over = _step_ended(draft, live, outcome, plan)
    elif isinstance(outcome, Begun):
        over = _begun(draft, live, plan)
    else:
        over = live, outcome
    if over is not None:
        _end(draft, *over)


def _end(draft: Draft, live: Live, outcome: Outcome) -> None:
    """Settle an attempt at an occurrence; of a run with steps, the whole run."""
    match outcome:
        case Interrupted():
            _hand_back(draft, live, live.run_at)
        case Deferred(until):
            _hand_back(draft, live, max(until, draft.now + steps.LEAST_DEFERRAL))
        case Completed():
            draft.end(live, outcome)
            _succeeded(draft, live)
        case Cancelled():
            draft.end(live, outcome)
            cancelled(draft)
        case Failed(error, retry_in, final):
            final = final or error.kind in draft.definition.policies.backoff.never_retry
            _failed(draft, live, draft.end(live, outcome), retry_in, final)
        case TimedOut():
            _failed(draft, live, draft.end(live, outcome), None, final=False)
        case Lost(note):
            ended = draft.end(live, outcome)
            draft.tell("execution.lost", live.id, number=live.number, attempt=live.attempt, note=note)
            _lost(draft, live, ended)


def _begun(draft: Draft, live: Live, plan: RunPlan | None) -> Over:
    if _stopped(draft, live):
        return live, Cancelled(live.cancel_by)
    assert plan is not None  # the store leaves a run whose rules are missing
    return plan.begin(draft, live)


def _step_ended(draft: Draft, step: Live, outcome: Outcome, plan: RunPlan | None) -> Over:
    run = draft.run_of(step)
    if run is None:  # it was ended by force
        steps.end(draft, step, outcome)
        return None
    assert plan is not None
    return plan.step_ended(draft, run, step, outcome)


# -- releases


def _hand_back(draft: Draft, live: Live, run_at: datetime) -> None:
    """Return an attempt to the queue; no retry is used."""
    if _stopped(draft, live):
        draft.call_off(live, live.cancel_by)
        cancelled(draft)
    elif draft.recurring and draft.held_by_pause(live):
        draft.withdraw(live, SkipReason.PAUSED)
        next_time.go_on(draft)
    else:
        draft.hand_back(live, run_at)


# -- successes


def _succeeded(draft: Draft, live: Live) -> None:
    facts, total = draft.facts, draft.definition.policies.total_repeats
    by_schedule = live.asked is AskedBy.SCHEDULE
    facts.repeats_done += by_schedule
    if _decides_the_ending(draft):
        facts.ended_as = Ending.COMPLETED
    elif draft.recurring and by_schedule and facts.ended_as is None and 0 < total <= facts.repeats_done:
        next_time.conclude(draft, Ending.COMPLETED, SkipReason.OVERLAP)
    next_time.go_on(draft)


def _decides_the_ending(draft: Draft) -> bool:
    """Return True for the last occurrence of a run-once job: the job ends with its outcome."""
    others = any(live.asked is AskedBy.SCHEDULE for live in draft.occurrences())
    return draft.its_time_has_come and not others and not draft.gone


# -- failures, losses, cancellations


def _failed(draft: Draft, live: Live, ended: Execution, retry_in: timedelta | None, final: bool) -> None:
    failures = live.failures + 1
    spent, used_up = _spend(draft, failures)
    if not _stopped(draft, live) and (final or used_up):
        _exhausted(draft, live)
    elif _may_queue(draft, live):
        backoff = backoff_of(draft.definition, draft.facts)
        run_at = draft.now + policy.after_failure(backoff, spent, retry_in, draft.chance.fraction)
        draft.queue_again(ended, draft.opening(run_at), live.slot, failures=failures)
    else:
        _given_up(draft, live)


def _lost(draft: Draft, live: Live, ended: Execution) -> None:
    losses = live.losses + 1
    enough = draft.definition.policies.on_lost.ends or losses >= MAX_LOSSES
    if not _stopped(draft, live) and enough:
        _exhausted(draft, live, resets=False)
    elif _may_queue(draft, live):
        backoff = backoff_of(draft.definition, draft.facts)
        run_at = draft.now + policy.after_loss(backoff, losses, draft.chance.fraction)
        draft.queue_again(ended, draft.opening(run_at), live.slot, losses=losses)
    else:
        _given_up(draft, live)


def _spend(draft: Draft, failures: int) -> tuple[int, bool]:
    """Count a failure; return the count for the backoff, and whether the budget is used up."""
    policies, facts = draft.definition.policies, draft.facts
    if policies.retry_reset_period is None:
        return failures, failures > policies.max_retries
    if facts.period_start is None or draft.now >= facts.period_start + policies.retry_reset_period:
        facts.period_start, facts.period_failures = draft.now, 0
    facts.period_failures += 1
    # An occurrence that outlives its period gets no new budget.
    count = max(facts.period_failures, failures)
    if policies.when_exhausted is WhenExhausted.WAIT_RESET:
        return facts.period_failures, count >= policies.max_retries
    return facts.period_failures, count > policies.max_retries


def may_retry(policies: Policies, live: Live, kind: str) -> bool:
    """Return True if a failure of this kind leaves a retry, as far as the run itself can tell.

    A budget that runs of a period share (`retry_reset_period`) may already be used up by other runs.
    """
    failures = live.failures + 1
    waits = policies.retry_reset_period is not None and policies.when_exhausted is WhenExhausted.WAIT_RESET
    used_up = failures >= policies.max_retries if waits else failures > policies.max_retries
    return not used_up and kind not in policies.backoff.never_retry


def _stopped(draft: Draft, live: Live) -> bool:
    """Return True if no further attempt may follow: cancelled, deleted, or the schedule is over. Operators win."""
    over = draft.facts.ended_as is not None and live.asked is AskedBy.SCHEDULE
    return over or draft.gone or live.cancel_asked_at is not None


def _may_queue(draft: Draft, live: Live) -> bool:
    """Return True if an attempt may be queued again. A pause holds the schedule's runs; a run-once then waits."""
    held = draft.recurring and draft.held_by_pause(live)
    return not held and not _stopped(draft, live)


def _exhausted(draft: Draft, live: Live, resets: bool = True) -> None:
    """End an occurrence that has no attempt left. A loss uses no retry, so it waits for no reset (`resets`)."""
    policies, facts = draft.definition.policies, draft.facts
    draft.tell("job.exhausted", live.id, number=live.number, attempt=live.attempt)
    if _decides_the_ending(draft):
        facts.ended_as = Ending.FAILED
    elif draft.recurring and live.asked is AskedBy.SCHEDULE:
        match policies.when_exhausted:
            case WhenExhausted.FAIL:
                next_time.conclude(draft, Ending.FAILED, SkipReason.FAILED)
            case WhenExhausted.WAIT_RESET if resets and policies.retry_reset_period is not None:
                facts.reset_at = (facts.period_start or draft.now) + policies.retry_reset_period
                facts.next_due_at = None
            case WhenExhausted.CONTINUE | WhenExhausted.WAIT_RESET:
                pass
            case other:
                assert_never(other)
    next_time.go_on(draft)


def _given_up(draft: Draft, live: Live) -> None:
    """End an occurrence that was stopped, without success."""
    if live.cancel_asked_at is not None:
        cancelled(draft)
    else:
        next_time.go_on(draft)


def cancelled(draft: Draft) -> None:
    """Continue after a cancelled execution. It is never retried: a recurring job goes on, a run-once is cancelled."""
    over = draft.facts.ended_as is not None
    if draft.its_time_has_come and not over and not draft.gone and not draft.occurrences():
        draft.facts.cancelled_at = draft.now
    next_time.go_on(draft)
