"""Ending an execution with an outcome: history, counters, the next attempt and the next time, in one step."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ostinato.core import retry
from ostinato.core.lifecycle.draft import Draft
from ostinato.core.model import (
    MAX_LOSSES,
    Asked,
    Change,
    Ending,
    Execution,
    Job,
    Live,
    Luck,
    Result,
    SkipReason,
    WaitsFor,
)
from ostinato.core.outcome import Cancelled, Completed, Deferred, Failed, Interrupted, Lost, Outcome, TimedOut
from ostinato.core.policy import OnLost, WhenExhausted
from ostinato.core.schedule import Manual

LEAST_DEFERRAL = timedelta(seconds=1)


def settle(
    job: Job, lives: Sequence[Live], live: Live, outcome: Outcome, now: datetime, luck: Luck, by: str = ""
) -> Change:
    """What a running execution came to. `lives` are all live rows of the job, this one included."""
    draft = Draft(job, lives, now, luck, by)
    match outcome:
        case Interrupted():
            _hand_back(draft, live, live.run_at)
        case Deferred(until):
            _hand_back(draft, live, max(until, now + LEAST_DEFERRAL))
        case Completed(result):
            draft.end(live, Result.COMPLETED, value=result)
            draft.facts.repeats_done += live.asked is Asked.SCHEDULE
            _succeeded(draft, live)
        case Cancelled():
            draft.end(live, Result.CANCELLED, error=("Cancelled", outcome.note, None), by=outcome.by)
            cancelled_by_hand(draft, live)
        case Failed(error, retry_in, final):
            ended = draft.end(live, Result.FAILED, error=(error.kind, error.message, error.traceback))
            _failed(draft, live, ended, retry_in, final or error.kind in job.policies.backoff.never_retry)
        case TimedOut(after):
            message = f"still running after {after.total_seconds():g} s"
            ended = draft.end(live, Result.TIMED_OUT, error=("TimedOut", message, None))
            _failed(draft, live, ended, None, final=False)
        case Lost(note):
            ended = draft.end(live, Result.LOST, error=("Lost", note, None))
            draft.tell("execution.lost", live.id, number=live.number, attempt=live.attempt, note=note)
            _lost(draft, live, ended)
    return draft.change()


def over(draft: Draft, live: Live) -> None:
    """An occurrence has ended: who waits may come in, and the schedule goes on."""
    waiting = draft.waiting()
    if waiting is not None and not draft.gone:
        slot = draft.free_slot()
        if slot is not None:
            draft.let_in(waiting, slot)
    draft.go_on()


def cancelled_by_hand(draft: Draft, live: Live) -> None:
    """Never retried: a recurring job goes on, a run-once is then cancelled itself."""
    run_once = not draft.recurring and not isinstance(draft.definition.schedule, Manual)
    if (
        run_once
        and live.asked is Asked.SCHEDULE
        and not draft.occurrences()
        and draft.facts.cancelled_at is None
    ):
        draft.facts.cancelled_at = draft.now
    over(draft, live)


def _hand_back(draft: Draft, live: Live, run_at: datetime) -> None:
    """Release: the same attempt, queued again, nothing spent."""
    if live.cancel_asked_at is not None or draft.gone:
        draft.end(live, Result.CANCELLED, by=live.cancel_by)
        cancelled_by_hand(draft, live)
        return
    queued = replace(
        live,
        run_at=run_at,
        waits_for=WaitsFor.TIME if run_at > draft.now else None,
        worker_id=None,
        started_at=None,
        fence=live.fence + 1,
        releases=live.releases + 1,
        progress=None,
    )
    if draft.facts.paused_at is None or live.asked is Asked.HAND:
        draft.alter(queued)
    elif draft.recurring:
        draft.withdraw(queued, SkipReason.PAUSED)
        over(draft, live)
    else:
        draft.alter(replace(queued, waits_for=WaitsFor.RESUME))


def _succeeded(draft: Draft, live: Live) -> None:
    total = draft.definition.policies.total_repeats
    finished = 0 < total <= draft.facts.repeats_done and live.asked is Asked.SCHEDULE
    if not draft.recurring and not isinstance(draft.definition.schedule, Manual):
        draft.facts.ended_as = Ending.COMPLETED
    if finished and not draft.gone and draft.facts.ended_at is None:
        draft.end_job(Ending.COMPLETED)
        for waiting in [other for other in draft.occurrences() if not other.running]:
            draft.withdraw(waiting, SkipReason.OVERLAP)
    over(draft, live)


def _failed(draft: Draft, live: Live, ended: Execution, retry_in: timedelta | None, final: bool) -> None:
    failures = live.failures + 1
    spent, used_up = _spend(draft, failures)
    if _stopped(draft, live):
        _given_up(draft, live, exhausted=False)
    elif final or used_up:
        _given_up(draft, live, exhausted=True)
    elif not _may_queue(draft, live):
        _given_up(draft, live, exhausted=False)
    else:
        wait = retry.delay(draft.definition.policies.backoff, spent, draft.luck.fraction())
        draft.queue_again(
            ended, draft.now + (wait if retry_in is None else retry_in), live.slot, failures=failures
        )


def _lost(draft: Draft, live: Live, ended: Execution) -> None:
    losses = live.losses + 1
    if _stopped(draft, live):
        _given_up(draft, live, exhausted=False)
    elif draft.definition.policies.on_lost is OnLost.FAIL or losses >= MAX_LOSSES:
        _given_up(draft, live, exhausted=True)
    elif not _may_queue(draft, live):
        _given_up(draft, live, exhausted=False)
    else:
        draft.queue_again(ended, draft.now + _wait_after_loss(draft, losses), live.slot, losses=losses)


def _wait_after_loss(draft: Draft, losses: int) -> timedelta:
    """At once the first time; then apart from those it shared a worker with, so that the culprit is alone."""
    if losses <= 1:
        return timedelta(0)
    wait = retry.delay(draft.definition.policies.backoff, losses - 1, 0.5)
    return retry.spread_out(wait, draft.luck.fraction())


def _spend(draft: Draft, failures: int) -> tuple[int, bool]:
    """Count a failure: how many the backoff goes by, and whether the budget is used up."""
    policies, facts = draft.definition.policies, draft.facts
    if policies.retry_reset_period is None:
        return failures, failures > policies.max_retries
    if facts.period_start is None or draft.now >= facts.period_start + policies.retry_reset_period:
        facts.period_start, facts.period_failures = draft.now, 0
    facts.period_failures += 1
    if policies.when_exhausted is WhenExhausted.WAIT_RESET:
        return facts.period_failures, facts.period_failures >= policies.max_retries
    return facts.period_failures, facts.period_failures > policies.max_retries


def _stopped(draft: Draft, live: Live) -> bool:
    """Operators win: nothing more comes of what was cancelled, deleted or ended meanwhile."""
    return draft.gone or live.cancel_asked_at is not None or draft.facts.ended_at is not None


def _may_queue(draft: Draft, live: Live) -> bool:
    """A paused job queues nothing but what a person asked for; a run-once waits for the resume."""
    return draft.facts.paused_at is None or not draft.recurring or live.asked is Asked.HAND


def _given_up(draft: Draft, live: Live, exhausted: bool) -> None:
    """The occurrence ends without success."""
    if live.cancel_asked_at is not None:
        cancelled_by_hand(draft, live)
        return
    if exhausted:
        draft.tell("job.exhausted", live.id, number=live.number, attempt=live.attempt)
        _when_exhausted(draft, live)
    over(draft, live)


def _when_exhausted(draft: Draft, live: Live) -> None:
    policies, facts = draft.definition.policies, draft.facts
    if not draft.recurring:
        if not isinstance(draft.definition.schedule, Manual):
            facts.ended_as = Ending.FAILED
    elif live.asked is Asked.HAND:
        return
    elif policies.when_exhausted is WhenExhausted.FAIL:
        draft.end_job(Ending.FAILED)
        for waiting in [other for other in draft.occurrences() if not other.running]:
            draft.withdraw(waiting, SkipReason.FAILED)
    elif policies.when_exhausted is WhenExhausted.WAIT_RESET and policies.retry_reset_period is not None:
        facts.reset_at = (facts.period_start or draft.now) + policies.retry_reset_period
        facts.next_due_at, facts.computed_at = facts.reset_at, draft.now
