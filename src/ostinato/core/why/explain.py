"""Explanation of an occurrence."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from ostinato.core.lifecycle.due_times import INSTANT, newest_due
from ostinato.core.model import Execution, Job, Live, Skip, SkipReason
from ostinato.core.schedule import Manual
from ostinato.core.why.attempts import attempt_told
from ostinato.core.why.values import LATE, Because, Cause, Evidence, Told, Verdict, Why, absence, last_of
from ostinato.core.why.words import between, by, clock

BY_HAND: Final = "The job has no schedule: it runs only on request."
RAN: Final = (Verdict.ENDED, Verdict.RUNNING, Verdict.QUEUED)


def explain(evidence: Evidence) -> Why:
    """Explain the occurrence at or before an instant."""
    due = unrecorded_due(evidence.job, evidence.at, evidence.now)
    recorded = recorded_due(evidence)
    if recorded is not None and (due is None or due <= recorded):
        return _recorded(evidence, recorded)
    if evidence.at < evidence.job.facts.created_at:
        told = [
            (
                None,
                f"The job was created at {clock(evidence.job.facts.created_at)}; before, there was nothing to run.",
            )
        ]
        return _why(evidence, Verdict.BEFORE_CREATION, None, told)
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
    told = [each for attempt in evidence.attempts for each in attempt_told(evidence, attempt)]
    if isinstance(last, Execution):
        verdict = Verdict.ENDED
    else:
        verdict = Verdict.RUNNING if last.running else Verdict.QUEUED
    return _why(evidence, verdict, due, told)


def _skipped(evidence: Evidence, skip: Skip, due: datetime) -> Iterator[Told]:
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


def _overlapped(other: Execution | Live | None, many: str) -> Told:
    if other is None:
        return Cause(Because.PREVIOUS_RUN), f"It was skipped{many} because the previous run was still running."
    ended = other.finished_at if isinstance(other, Execution) else None
    cause = Cause(Because.PREVIOUS_RUN, other.started_at or other.queued_at, ended, execution_id=other.id)
    began = f"started at {clock(other.started_at)}" if other.started_at else f"queued at {clock(other.queued_at)}"
    end = "and has not ended yet" if ended is None else f"and ended at {clock(ended)}"
    return cause, (
        f"It was skipped{many} because the previous run (number {other.number}) was still running: {began}, {end}."
    )


def _missed(evidence: Evidence, skip: Skip, due: datetime, many: str) -> Told:
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


def _not_run(evidence: Evidence, due: datetime) -> Iterator[Told]:
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
    if evidence.now - due <= LATE:
        yield None, f"It has been due since {clock(due)} and is about to be queued."
        return
    gap = absence(evidence.present, due, evidence.now)
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
        told = "The records of that time were removed, or the schedule was restarted since."
        return _why(evidence, Verdict.FORGOTTEN, None, [(None, told)])
    return _why(evidence, Verdict.NOTHING_DUE, None, [(None, "Nothing was due yet.")])


def _before_the_first(evidence: Evidence) -> bool:
    """Return True if nothing was due between the beginning of this schedule and the instant."""
    job, anchor = evidence.job, evidence.job.facts.anchor
    return anchor <= evidence.at and newest_due(job.definition, job.facts, evidence.at, anchor) is None


def _why(evidence: Evidence, verdict: Verdict, due: datetime | None, told: Iterable[Told]) -> Why:
    listed = list(told)
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
