"""Explanation of an occurrence: its sentences about times, waits, attempts and ends."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from ostinato.core.lifecycle.due_times import INSTANT, newest_due
from ostinato.core.model import AskedBy, Event, Execution, Job, Live, Skip, SkipReason, WaitsFor
from ostinato.core.outcome import OutcomeKind
from ostinato.core.schedule import Manual
from ostinato.core.why.values import LATE, Because, Cause, Evidence, Reason, Verdict, Why, absence, last_of

# -- Times and people in a sentence


def by(who: str) -> str:
    return f" by {who}" if who else ""


def clock(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


def between(since: datetime | None, until: datetime | None) -> str:
    """Write a stretch of time in words; None: unknown begin, or no end yet."""
    if since is None:
        return "yet" if until is None else f"before {clock(until)}"
    return f"since {clock(since)}" if until is None else f"between {clock(since)} and {clock(until)}"


def span(time: timedelta) -> str:
    """Write a duration to the second, or in milliseconds when shorter: `1 h 5 min`, `12 s`, `340 ms`."""
    seconds = time.total_seconds()
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    return " ".join([f"{count} {unit}" for count, unit in parts if count][:2])


# -- Sentences about a queued occurrence: its start, its waits, its end


def attempt_reasons(evidence: Evidence, attempt: Execution | Live) -> Iterator[Reason]:
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


def _delays(evidence: Evidence, attempt: Execution | Live, started: datetime) -> Iterator[Reason]:
    """Explain the delays between the due time, the earliest start and the start."""
    if attempt.attempt == 0 and attempt.run_at - attempt.due_at > LATE:
        yield _put_off(evidence, attempt)
    if attempt.attempt == 0 and attempt.queued_at - attempt.due_at > LATE:
        yield _fired_late(evidence, attempt)
    waited_from = max(attempt.queued_at, attempt.run_at)
    if started - waited_from > LATE:
        yield _kept_waiting(evidence, attempt, waited_from, started)


def _put_off(evidence: Evidence, attempt: Execution | Live) -> Reason:
    policies, until = evidence.job.policies, attempt.run_at
    if policies.window is not None and attempt.run_at - attempt.due_at > policies.jitter:
        cause = Cause(Because.WINDOW, attempt.due_at, until)
        return cause, f"It had to wait until its window opens at {clock(until)}."
    return Cause(Because.JITTER, attempt.due_at, until), f"Its jitter moved the start to {clock(until)}."


def _fired_late(evidence: Evidence, attempt: Execution | Live) -> Reason:
    gap = absence(evidence.present, attempt.due_at, attempt.queued_at)
    if gap is not None:
        return Cause(Because.NOBODY_RUNNING, *gap), f"It was queued late because nothing was running {between(*gap)}."
    if evidence.in_the_way is not None:
        return _behind(evidence.in_the_way, attempt)
    return Cause(Because.MISSED, attempt.due_at, attempt.queued_at), (
        f"It was queued only at {clock(attempt.queued_at)}, though a process was running."
    )


def _behind(other: Execution | Live, attempt: Execution | Live) -> Reason:
    ended = other.finished_at if isinstance(other, Execution) else None
    cause = Cause(Because.PREVIOUS_RUN, other.started_at, ended, execution_id=other.id)
    until = "which is still running" if ended is None else f"which ended at {clock(ended)}"
    return cause, f"It waited for the run before it (number {other.number}), {until}."


def _kept_waiting(evidence: Evidence, attempt: Execution | Live, since: datetime, until: datetime) -> Reason:
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


def _queue_paused(paused: Event, resumed_at: datetime | None, queue: str) -> Reason:
    cause = Cause(Because.QUEUE_PAUSED, paused.at, resumed_at, paused.by)
    since = f"paused{by(paused.by)} at {clock(paused.at)}"
    if resumed_at is None:
        return cause, f"The queue {queue!r} was {since}, and starts nothing until it is resumed."
    return cause, f"The queue {queue!r} was {since}, and resumed at {clock(resumed_at)}."


def _waiting(evidence: Evidence, attempt: Execution | Live, name: str) -> Iterator[Reason]:
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


def _waits_for(evidence: Evidence, live: Live) -> Reason:
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


# -- Explanation of an occurrence

BY_HAND: Final = "The job has no schedule: it runs only on request."
RAN: Final = (Verdict.ENDED, Verdict.RUNNING, Verdict.QUEUED)


def explain(evidence: Evidence) -> Why:
    """Explain the occurrence at or before an instant."""
    due = unrecorded_due(evidence.job, evidence.at, evidence.now)
    recorded = recorded_due(evidence)
    if recorded is not None and (due is None or due <= recorded):
        return _recorded(evidence, recorded)
    if evidence.at < evidence.job.facts.created_at:
        reasons = [
            (
                None,
                f"The job was created at {clock(evidence.job.facts.created_at)}; before, there was nothing to run.",
            )
        ]
        return _why(evidence, Verdict.BEFORE_CREATION, None, reasons)
    over = _over(evidence)
    if over is not None and (due is None or over[0].since is None or due > over[0].since):
        return _why(evidence, Verdict.AFTER_THE_END, None, [over])
    if due is not None:
        return _why(evidence, Verdict.NOT_RUN, due, _not_run(evidence, due))
    return _nothing(evidence)


def unrecorded_due(job: Job, at: datetime, now: datetime) -> datetime | None:
    """Return the newest due time up to an instant that has no record yet. With a fixed delay there is no grid."""
    facts, definition = job.facts, job.definition
    if facts.first_run_waits:
        return facts.next_due_at
    if definition.policies.fixed_delay or (facts.ended_at and facts.ended_at <= at):
        return None
    floor = max(facts.last_due_at or facts.anchor, facts.anchor)
    return newest_due(definition, facts, min(at, now), floor)


def recorded_due(evidence: Evidence) -> datetime | None:
    """Return the due time of the occurrence that has a record."""
    if evidence.attempts:
        return evidence.attempts[0].due_at
    return None if evidence.skip is None else due_in(evidence.skip, evidence.job, evidence.at)


def due_in(skip: Skip, job: Job, at: datetime) -> datetime:
    """Return the newest due time of a skip up to an instant; after a change of the schedule only its ends are known."""
    if at >= skip.last_due_at:
        return skip.last_due_at
    due = newest_due(job.definition, job.facts, at, skip.first_due_at - INSTANT)
    return due or skip.first_due_at


def _recorded(evidence: Evidence, due: datetime) -> Why:
    if evidence.skip is not None and not evidence.attempts:
        return _why(evidence, Verdict.SKIPPED, due, _skipped(evidence, evidence.skip, due))
    last = evidence.attempts[-1]
    reasons = [each for attempt in evidence.attempts for each in attempt_reasons(evidence, attempt)]
    if isinstance(last, Execution):
        verdict = Verdict.ENDED
    else:
        verdict = Verdict.RUNNING if last.running else Verdict.QUEUED
    return _why(evidence, verdict, due, reasons)


def _skipped(evidence: Evidence, skip: Skip, due: datetime) -> Iterator[Reason]:
    many = f", with {skip.count - 1} more up to {clock(skip.last_due_at)}" if skip.count > 1 else ""
    span_of_it = skip.first_due_at, skip.last_due_at
    match skip.reason:
        case SkipReason.OVERLAP:
            yield _overlapped(evidence.in_the_way, many)
        case SkipReason.MISSED:
            yield _missed(evidence, skip, due, many)
        case SkipReason.PAUSED:
            paused = last_of(evidence.events, "job.paused")
            who, at = (paused.by, f" at {clock(paused.at)}") if paused else ("", "")
            cause = Cause(Because.PAUSED, paused.at if paused else None, by=who)
            yield cause, f"It was skipped{many} because the job was paused{by(who)}{at}."
        case SkipReason.WINDOW:
            yield (
                Cause(Because.WINDOW, *span_of_it),
                f"It was skipped{many} because it lies outside the job's window.",
            )
        case SkipReason.BUDGET:
            yield (
                Cause(Because.BUDGET, *span_of_it),
                (f"It was skipped{many} because the retries of that period were used up."),
            )
        case SkipReason.FAILED:
            yield (
                Cause(Because.FAILED, *span_of_it),
                f"It was skipped{many} because the job had failed.",
            )


def _overlapped(other: Execution | Live | None, many: str) -> Reason:
    if other is None:
        return Cause(Because.PREVIOUS_RUN), f"It was skipped{many} because the previous run was still running."
    ended = other.finished_at if isinstance(other, Execution) else None
    cause = Cause(Because.PREVIOUS_RUN, other.started_at or other.queued_at, ended, execution_id=other.id)
    began = f"started at {clock(other.started_at)}" if other.started_at else f"queued at {clock(other.queued_at)}"
    end = "and has not ended yet" if ended is None else f"and ended at {clock(ended)}"
    return cause, (
        f"It was skipped{many} because the previous run (number {other.number}) was still running: {began}, {end}."
    )


def _missed(evidence: Evidence, skip: Skip, due: datetime, many: str) -> Reason:
    gap = absence(evidence.present, due, skip.recorded_at)
    rule = f"the catch-up policy is to {evidence.job.policies.catch_up.words}"
    if gap is None:
        cause = Cause(Because.MISSED, due, skip.recorded_at)
        return (
            cause,
            f"It was skipped{many}: no process handled it before {clock(skip.recorded_at)}, and {rule}.",
        )
    return Cause(Because.NOBODY_RUNNING, *gap), (
        f"It was skipped{many} because nothing was running {between(*gap)}, and {rule}."
    )


def _not_run(evidence: Evidence, due: datetime) -> Iterator[Reason]:
    facts = evidence.job.facts
    if facts.paused_at is not None:
        paused = last_of(evidence.events, "job.paused")
        who = paused.by if paused else ""
        yield (
            Cause(Because.PAUSED, facts.paused_at, by=who),
            (f"The job has been paused{by(who)} since {clock(facts.paused_at)}."),
        )
        return
    if facts.reset_at is not None:
        yield (
            Cause(Because.BUDGET, until=facts.reset_at),
            (f"The retries of this period are used up; the job continues at {clock(facts.reset_at)}."),
        )
        return
    gap = absence(evidence.present, evidence.now, evidence.now)
    if gap is None and evidence.now - due <= LATE:
        yield None, f"It has been due since {clock(due)} and is about to be queued."
        return
    gap = gap or absence(evidence.present, due, evidence.now)
    if gap is not None:
        yield (
            Cause(Because.NOBODY_RUNNING, *gap),
            f"Nothing has queued it yet: nothing was running {between(*gap)}.",
        )
    elif evidence.in_the_way is not None:
        other = evidence.in_the_way
        cause = Cause(Because.PREVIOUS_RUN, other.started_at, execution_id=other.id)
        yield cause, f"It runs after the run before it (number {other.number}) has ended."
    elif evidence.queue_bound is not None:
        queue, most = evidence.job.definition.queue, evidence.queue_bound
        yield (
            Cause(Because.QUEUE_FULL, due),
            f"The queue {queue!r} is full: its limit for the schedule is {most}.",
        )
    else:
        yield Cause(Because.MISSED, due), "Nothing has queued it yet, though a process is running."


def _over(evidence: Evidence) -> tuple[Cause, str] | None:
    facts, at = evidence.job.facts, evidence.at
    if facts.cancelled_at is not None and at >= facts.cancelled_at:
        cancelled = last_of(evidence.events, "job.cancelled")
        who = cancelled.by if cancelled else ""
        cause = Cause(Because.CANCELLED, facts.cancelled_at, by=who)
        return cause, f"The job was cancelled{by(who)} at {clock(facts.cancelled_at)}."
    if facts.ended_at is not None and at >= facts.ended_at:
        how = "had failed" if facts.ended_as == "failed" else "was over"
        return Cause(Because.ENDED, facts.ended_at), f"The job {how} at {clock(facts.ended_at)}."
    return None


def _nothing(evidence: Evidence) -> Why:
    facts = evidence.job.facts
    if isinstance(evidence.job.schedule, Manual):
        return _why(evidence, Verdict.NOTHING_DUE, None, [(None, BY_HAND)])
    if facts.last_due_at is not None and facts.last_due_at > evidence.at and not _before_the_first(evidence):
        sentence = "The records of that time were removed, or the schedule was restarted since."
        return _why(evidence, Verdict.FORGOTTEN, None, [(None, sentence)])
    return _why(evidence, Verdict.NOTHING_DUE, None, [(None, "Nothing was due yet.")])


def _before_the_first(evidence: Evidence) -> bool:
    """Return True if nothing was due between the beginning of this schedule and the instant."""
    job, anchor = evidence.job, evidence.job.facts.anchor
    return anchor <= evidence.at and newest_due(job.definition, job.facts, evidence.at, anchor) is None


def _why(evidence: Evidence, verdict: Verdict, due: datetime | None, reasons: Iterable[Reason]) -> Why:
    listed = list(reasons)
    sentences = [sentence for _, sentence in listed]
    if evidence.next_run_at is not None and evidence.next_run_at > evidence.now:
        sentences.append(f"Next time: {clock(evidence.next_run_at)}.")
    return Why(
        at=evidence.at,
        verdict=verdict,
        due_at=due,
        number=evidence.attempts[0].number if evidence.attempts and verdict in RAN else None,
        causes=tuple(cause for cause, _ in listed if cause is not None),
        sentences=tuple(sentences),
        next_run_at=evidence.next_run_at,
        attempts=evidence.attempts if verdict in RAN else (),
        skip=evidence.skip if verdict is Verdict.SKIPPED else None,
    )
