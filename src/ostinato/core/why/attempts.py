"""Sentences about a queued occurrence: its start, its waits, its end."""

from collections.abc import Iterator
from datetime import datetime

from ostinato.core.model import AskedBy, Event, Execution, Live, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.why.values import LATE, Because, Cause, Evidence, Told, absence, last_of
from ostinato.core.why.words import between, by, clock, span


def attempt_told(evidence: Evidence, attempt: Execution | Live) -> Iterator[Told]:
    name = f"Attempt {attempt.attempt}" if attempt.attempt else "It"
    if attempt.attempt == 0 and attempt.asked is AskedBy.HAND:
        yield Cause(Because.BY_HAND), f"It was requested at {clock(attempt.due_at)}, not by the schedule."
    if attempt.started_at is None:
        yield from _waiting(evidence, attempt, name)
        return
    late = attempt.started_at - attempt.run_at
    yield (
        None,
        f"{name} started at {clock(attempt.started_at)}, {f'{span(late)} late' if late > LATE else 'on time'}.",
    )
    yield from _delays(evidence, attempt, attempt.started_at)
    if isinstance(attempt, Execution):
        yield None, _ending(attempt, name)
    else:
        yield None, f"{name} is still running, for {span(evidence.now - attempt.started_at)} now."


def _delays(evidence: Evidence, attempt: Execution | Live, started: datetime) -> Iterator[Told]:
    """Explain the delays between the due time, the earliest start and the start."""
    if attempt.attempt == 0 and attempt.run_at - attempt.due_at > LATE:
        yield _put_off(evidence, attempt)
    if attempt.attempt == 0 and attempt.queued_at - attempt.due_at > LATE:
        yield _fired_late(evidence, attempt)
    waited_from = max(attempt.queued_at, attempt.run_at)
    if started - waited_from > LATE:
        yield _kept_waiting(evidence, attempt, waited_from, started)


def _put_off(evidence: Evidence, attempt: Execution | Live) -> Told:
    policies, until = evidence.job.policies, attempt.run_at
    if policies.window is not None and attempt.run_at - attempt.due_at > policies.jitter:
        cause = Cause(Because.WINDOW, attempt.due_at, until)
        return cause, f"It had to wait until its window opens at {clock(until)}."
    return Cause(Because.JITTER, attempt.due_at, until), f"Its jitter moved the start to {clock(until)}."


def _fired_late(evidence: Evidence, attempt: Execution | Live) -> Told:
    gap = absence(evidence.present, attempt.due_at, attempt.queued_at)
    if gap is not None:
        return Cause(Because.NOBODY_RUNNING, *gap), f"It was queued late because nothing was running {between(*gap)}."
    if evidence.in_the_way is not None:
        return _behind(evidence.in_the_way, attempt)
    return Cause(Because.MISSED, attempt.due_at, attempt.queued_at), (
        f"It was queued only at {clock(attempt.queued_at)}, though a process was running."
    )


def _behind(other: Execution | Live, attempt: Execution | Live) -> Told:
    ended = other.finished_at if isinstance(other, Execution) else None
    cause = Cause(Because.PREVIOUS_RUN, other.started_at, ended, execution_id=other.id)
    until = "which is still running" if ended is None else f"which ended at {clock(ended)}"
    return cause, f"It waited for the run before it (number {other.number}), {until}."


def _kept_waiting(evidence: Evidence, attempt: Execution | Live, since: datetime, until: datetime) -> Told:
    """Explain why no worker claimed it between these two instants."""
    if evidence.queue_paused is not None:
        return _queue_paused(evidence.queue_paused, evidence.queue_resumed_at, attempt.queue)
    gap = absence(evidence.present, since, until)
    if gap is not None:
        return Cause(Because.NOBODY_RUNNING, *gap), f"No worker was running {between(*gap)}."
    there = [each for each in evidence.present if each.since <= until and each.until >= since]
    serving = [each for each in there if not each.queues or attempt.queue in each.queues]
    gap = absence(serving, since, until)
    if gap is not None:
        cause = Cause(Because.QUEUE_NOT_SERVED, *gap)
        return cause, f"No worker served the queue {attempt.queue!r} {between(*gap)}."
    knowing = [each for each in serving if attempt.task in each.tasks]
    gap = absence(knowing, since, until)
    if gap is not None:
        return Cause(
            Because.UNKNOWN_TASK, *gap
        ), f"No worker knew the task {attempt.task!r} {between(*gap)}.{_install(evidence)}"
    if evidence.in_the_way is not None:
        return _behind(evidence.in_the_way, attempt)
    if attempt.started_at is None and until - max(attempt.queued_at, attempt.run_at) <= LATE:
        return None, "It is about to start."
    if attempt.started_at is None:
        return Cause(Because.WORKERS_BUSY, since), "All workers are busy."
    return Cause(Because.WORKERS_BUSY, since, until), f"All workers were busy until {clock(until)}."


def _queue_paused(paused: Event, resumed_at: datetime | None, queue: str) -> Told:
    cause = Cause(Because.QUEUE_PAUSED, paused.at, resumed_at, paused.by)
    since = f"paused{by(paused.by)} at {clock(paused.at)}"
    if resumed_at is None:
        return cause, f"The queue {queue!r} was {since}, and starts nothing until it is resumed."
    return cause, f"The queue {queue!r} was {since}, and resumed at {clock(resumed_at)}."


def _waiting(evidence: Evidence, attempt: Execution | Live, name: str) -> Iterator[Told]:
    if isinstance(attempt, Execution):  # withdrawn before it began
        yield None, f"{name} was queued at {clock(attempt.queued_at)} and never started."
        yield None, _ending(attempt, name)
        return
    yield None, f"{name} was queued at {clock(attempt.queued_at)} and has not started yet."
    yield _waits_for(evidence, attempt)


def _install(evidence: Evidence) -> str:
    return f" Install what it needs where a worker runs: {evidence.install}." if evidence.install else ""


def obstacle(evidence: Evidence, live: Live) -> str:
    """Say in a sentence what keeps a queued run from starting now."""
    if live.waits_for is None and live.run_at <= evidence.now:
        return _kept_waiting(evidence, live, evidence.now, evidence.now)[1]
    return _waits_for(evidence, live)[1]


def _waits_for(evidence: Evidence, live: Live) -> Told:
    facts, other = evidence.job.facts, evidence.in_the_way
    match live.waits_for:
        case WaitsFor.TIME if evidence.budget_of is not None:
            cause = Cause(Because.PROVIDER, until=live.run_at, by=evidence.budget_of)
            return cause, f"It waits for {evidence.budget_of}'s budget until {clock(live.run_at)}."
        case WaitsFor.TIME if live.attempt:
            return Cause(
                Because.BACKOFF, live.queued_at, live.run_at
            ), f"It waits for its retry at {clock(live.run_at)}."
        case WaitsFor.TIME:
            return Cause(Because.WINDOW, until=live.run_at), f"It may start at {clock(live.run_at)}."
        case WaitsFor.TURN if other is not None:
            return _behind(other, live)
        case WaitsFor.TURN:
            return Cause(Because.PREVIOUS_RUN), "It waits for the run before it."
        case WaitsFor.TASK:
            return Cause(
                Because.UNKNOWN_TASK, live.run_at
            ), f"No worker knows the task {live.task!r}.{_install(evidence)}"
        case WaitsFor.LIMIT:
            return Cause(Because.LIMIT, live.queued_at), "It waits because a limit is reached."
        case WaitsFor.STEPS:
            return Cause(Because.STEPS, live.started_at), "It waits for its steps."
        case WaitsFor.RESUME:
            paused = last_of(evidence.events, "job.paused")
            who = paused.by if paused else ""
            cause = Cause(Because.PAUSED, facts.paused_at, by=who)
            return cause, f"The job is paused{by(who)}, and the run waits until the job is resumed."
        case None if live.run_at > evidence.now:
            return None, f"It may start at {clock(live.run_at)}."
        case None:
            return _kept_waiting(evidence, live, max(live.queued_at, live.run_at), evidence.now)


def _ending(ended: Execution, name: str) -> str:
    took = "" if ended.started_at is None else f" after {span(ended.finished_at - ended.started_at)}"
    error = ": ".join(part for part in (ended.error_kind, ended.error) if part)
    what = {
        OutcomeKind.COMPLETED: "completed",
        OutcomeKind.FAILED: "failed",
        OutcomeKind.TIMED_OUT: "timed out",
        OutcomeKind.CANCELLED: f"was cancelled{by(ended.by)}",
        OutcomeKind.LOST: "was lost with its worker",
    }[ended.outcome]
    return f"{name} {what} at {clock(ended.finished_at)}{took}{f' ({error})' if error else ''}."
