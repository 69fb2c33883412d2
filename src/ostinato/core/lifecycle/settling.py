"""Ending an execution with an outcome: history, counters, the next attempt and the next time, in one step."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ostinato.core import retry
from ostinato.core.lifecycle import next_time, steps
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import (
    MAX_LOSSES,
    AskedBy,
    Chance,
    Change,
    Ending,
    Execution,
    Job,
    Live,
    Result,
    SkipReason,
)
from ostinato.core.outcome import (
    Begun,
    Cancelled,
    Completed,
    Deferred,
    Error,
    Failed,
    Interrupted,
    Lost,
    Outcome,
    TimedOut,
)
from ostinato.core.policy import OnLost, WhenExhausted
from ostinato.core.workflow import Graph, Origin, RunState


@dataclass(frozen=True, slots=True)
class WorkflowOfRun:
    """The workflow that an execution is part of, as far as it is wanted; `flaw` says why it cannot begin."""

    graph: Graph | None = None
    state: RunState | None = None
    origin: Origin | None = None
    flaw: str = ""


NO_FLOW = WorkflowOfRun()


def settle(
    job: Job,
    lives: Sequence[Live],
    live: Live,
    outcome: Outcome,
    now: datetime,
    chance: Chance,
    by: str = "",
    flow: WorkflowOfRun = NO_FLOW,
) -> Change:
    """Settle a running execution with its outcome. `lives` are all live rows of the job, this one included.

    `flow` is the workflow it is part of: wanted for what became of a step, and for a run that begins.
    """
    draft = Draft(job, lives, now, chance, by)
    come_to(draft, live, outcome, flow)
    return draft.change()


def time_out_run(job: Job, lives: Sequence[Live], run: Live, now: datetime, chance: Chance) -> Change:
    """The run of a workflow has taken longer than its job allows."""
    draft = Draft(job, lives, now, chance)
    over = steps.time_out(draft, run)
    if over is not None:
        _end(draft, *over)
    return draft.change()


def come_to(draft: Draft, live: Live, outcome: Outcome, flow: WorkflowOfRun = NO_FLOW) -> None:
    """One way to end, for workers and for people."""
    if (
        isinstance(outcome, Interrupted)
        and outcome.started
        and draft.definition.policies.on_lost is OnLost.FAIL
    ):
        outcome = Lost("its worker was stopped")
    if live.step:
        over = steps.came_to(draft, live, outcome, flow.graph)
    elif isinstance(outcome, Begun):
        over = _begun(draft, live, flow)
    else:
        over = live, outcome
    if over is not None:
        _end(draft, *over)


def _end(draft: Draft, live: Live, outcome: Outcome) -> None:
    """Settle an attempt at an occurrence; of a workflow, the whole run."""
    match outcome:
        case Interrupted():
            _hand_back(draft, live, live.run_at)
        case Deferred(until):
            _hand_back(draft, live, max(until, draft.now + steps.LEAST_DEFERRAL))
        case Completed(result):
            draft.end(live, Result.COMPLETED, value=result)
            _succeeded(draft, live)
        case Cancelled(by, note):
            draft.end(live, Result.CANCELLED, error=("Cancelled", note, None), by=by)
            cancelled(draft)
        case Failed(error, retry_in, final):
            ended = draft.end(live, Result.FAILED, error=(error.kind, error.message, error.traceback))
            final = final or error.kind in draft.definition.policies.backoff.never_retry
            _failed(draft, live, ended, retry_in, final)
        case TimedOut(after):
            message = f"still running after {after.total_seconds():g} s"
            ended = draft.end(live, Result.TIMED_OUT, error=("TimedOut", message, None))
            _failed(draft, live, ended, None, final=False)
        case Lost(note):
            ended = draft.end(live, Result.LOST, error=("Lost", note, None))
            draft.tell("execution.lost", live.id, number=live.number, attempt=live.attempt, note=note)
            _lost(draft, live, ended)


def _begun(draft: Draft, live: Live, flow: WorkflowOfRun) -> tuple[Live, Outcome] | None:
    if _stopped(draft, live):
        return live, Cancelled(live.cancel_by)
    if flow.graph is None or flow.state is None or flow.origin is None:
        return live, Failed(Error("NoMatchingTrigger", flow.flaw))
    return steps.begin(draft, live, flow.graph, flow.state, flow.origin)


# -- released


def _hand_back(draft: Draft, live: Live, run_at: datetime) -> None:
    """The same attempt, queued again, nothing spent."""
    if _stopped(draft, live):
        draft.end(live, Result.CANCELLED, by=live.cancel_by)
        cancelled(draft)
    elif draft.recurring and draft.held_by_pause(live):
        draft.withdraw(live, SkipReason.PAUSED)
        next_time.go_on(draft)
    else:
        draft.hand_back(live, run_at)


# -- succeeded


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
    """A run-once job ends as its last occurrence did."""
    others = any(live.asked is AskedBy.SCHEDULE for live in draft.occurrences())
    return draft.its_time_has_come and not others and not draft.gone


# -- failed, lost, cancelled


def _failed(draft: Draft, live: Live, ended: Execution, retry_in: timedelta | None, final: bool) -> None:
    failures = live.failures + 1
    spent, used_up = _spend(draft, failures)
    if not _stopped(draft, live) and (final or used_up):
        _exhausted(draft, live)
    elif _may_queue(draft, live):
        wait = retry.delay(
            next_time.backoff_of(draft.definition, draft.facts), spent, draft.chance.fraction()
        )
        run_at = draft.now + (wait if retry_in is None else retry_in)
        draft.queue_again(ended, draft.opening(run_at), live.slot, failures=failures)
    else:
        _given_up(draft, live)


def _lost(draft: Draft, live: Live, ended: Execution) -> None:
    losses = live.losses + 1
    enough = draft.definition.policies.on_lost is OnLost.FAIL or losses >= MAX_LOSSES
    if not _stopped(draft, live) and enough:
        _exhausted(draft, live, resets=False)
    elif _may_queue(draft, live):
        run_at = draft.opening(draft.now + _wait_after_loss(draft, losses))
        draft.queue_again(ended, run_at, live.slot, losses=losses)
    else:
        _given_up(draft, live)


def _wait_after_loss(draft: Draft, losses: int) -> timedelta:
    """At once the first time; then apart from those it shared a worker with, so that the culprit is alone."""
    if losses <= 1:
        return timedelta(0)
    wait = retry.delay(next_time.backoff_of(draft.definition, draft.facts), losses - 1, 0.5)
    return retry.spread_out(wait, draft.chance.fraction())


def _spend(draft: Draft, failures: int) -> tuple[int, bool]:
    """Count a failure: how many the backoff goes by, and whether the budget is used up."""
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


def _stopped(draft: Draft, live: Live) -> bool:
    """Operators win: nothing more comes of what was cancelled or deleted, nor of a schedule that is over."""
    over = draft.facts.ended_as is not None and live.asked is AskedBy.SCHEDULE
    return over or draft.gone or live.cancel_asked_at is not None


def _may_queue(draft: Draft, live: Live) -> bool:
    """A paused job queues nothing but what a person asked for since; a run-once waits for the resume."""
    held = draft.recurring and draft.held_by_pause(live)
    return not held and not _stopped(draft, live)


def _exhausted(draft: Draft, live: Live, resets: bool = True) -> None:
    """No further attempt. A loss spends no retry: no reset would give it another."""
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
    next_time.go_on(draft)


def _given_up(draft: Draft, live: Live) -> None:
    """The occurrence ends without success, because somebody wanted it so."""
    if live.cancel_asked_at is not None:
        cancelled(draft)
    else:
        next_time.go_on(draft)


def cancelled(draft: Draft) -> None:
    """By hand, and never retried: a recurring job goes on, a run-once is then cancelled itself."""
    over = draft.facts.ended_as is not None
    if draft.its_time_has_come and not over and not draft.gone and not draft.occurrences():
        draft.facts.cancelled_at = draft.now
    next_time.go_on(draft)
