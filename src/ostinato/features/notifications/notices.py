"""Notices for hooks, made from the changes of jobs."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ostinato.core.model import Change, Definition, Ending, Execution, Job, Live, Skip
from ostinato.core.outcome import OutcomeKind
from ostinato.features.notifications.hooks import Hook, Named, Notice, NoticeKind, plain, short


def notices_of(hook: Hook, change: Change, recovered: Collection[UUID] = ()) -> Iterator[Notice]:
    """Yield a hook's notices about a change.

    `recovered` holds the ids of executions that succeeded for the first time after a failure.
    """
    job = change.job
    for ended in change.ended:
        if not ended.step:
            yield from _of_execution(hook, change, ended, ended.id in recovered)
    if NoticeKind.SKIP in hook.kinds:
        yield from (_skip(job, skip) for skip in change.skips)
    if NoticeKind.FAILED_FOR_GOOD in hook.kinds:
        for event in change.events:
            if event.kind == "job.exhausted" and event.execution_id is not None:
                yield _for_good(change, event.execution_id, event.at)


def late(hook: Hook, live: Live, definition: Definition, now: datetime) -> Notice | None:
    """Return a notice if a live execution started too late, or still waits."""
    waited = (live.started_at or now) - live.run_at
    if NoticeKind.LATE_START not in hook.kinds or live.step or waited < hook.late_after:
        return None
    started = "started" if live.started_at else "has not started:"
    return _late(Named(live.job_id, definition), live, live.id, now, f"{started} {short(waited)} late")


def overlong(job_id: UUID, definition: Definition, execution_id: UUID, at: datetime, data: dict[str, Any]) -> Notice:
    """Return the notice of a run that takes far longer than usual."""
    job = Named(job_id, definition)
    ran, usual = (short(timedelta(seconds=float(data[name]))) for name in ("ran", "usual"))
    return Notice(
        NoticeKind.LONG_RUN,
        f"{NoticeKind.LONG_RUN}:{execution_id}",
        at,
        job_id,
        f"{job.title} has been running for {ran}; usual is {usual}.",
        {"job": job.shown, "execution": {"id": str(execution_id), "number": data.get("number")}, "run": data},
    )


# -- executions and skips


def _of_execution(hook: Hook, change: Change, ended: Execution, recovered: bool) -> Iterator[Notice]:
    kinds, job = hook.kinds, Named(change.job.id, change.job.definition)
    if NoticeKind.FINISH in kinds:
        yield _ended(NoticeKind.FINISH, job, ended, f"{job.title} {WORDS[ended.outcome]}{_why(ended)}.")
    if NoticeKind.FAILURE in kinds and ended.outcome.is_failure:
        again = next((live for live in change.add if live.number == ended.number and not live.step), None)
        more = f" Next attempt at {plain(again.run_at)}." if again else ""
        yield _ended(NoticeKind.FAILURE, job, ended, f"{job.title} {WORDS[ended.outcome]}{_why(ended)}.{more}", again)
    if NoticeKind.RECOVERY in kinds and recovered:
        yield _ended(NoticeKind.RECOVERY, job, ended, f"{job.title} has succeeded again.")
    started = ended.started_at
    if NoticeKind.LATE_START in kinds and started is not None and started - ended.run_at >= hook.late_after:
        yield _late(job, ended, ended.id, ended.finished_at, f"started {short(started - ended.run_at)} late")


WORDS = {
    OutcomeKind.COMPLETED: "has completed",
    OutcomeKind.FAILED: "has failed",
    OutcomeKind.TIMED_OUT: "timed out",
    OutcomeKind.CANCELLED: "was cancelled",
    OutcomeKind.LOST: "was lost with its worker",
}


def _ended(kind: NoticeKind, job: Named, ended: Execution, text: str, again: Live | None = None) -> Notice:
    about: dict[str, Any] = {"job": job.shown, "execution": _execution(ended)}
    if kind is NoticeKind.FAILURE:
        about["retry_at"] = None if again is None else plain(again.run_at)
    return Notice(kind, f"{kind}:{ended.id}", ended.finished_at, job.id, text, about)


def _for_good(change: Change, execution_id: UUID, at: datetime) -> Notice:
    job, over = Named(change.job.id, change.job.definition), change.job.facts.ended_as is Ending.FAILED
    ended = next((each for each in change.ended if each.id == execution_id), None)
    about = {
        "job": job.shown,
        "execution": _execution(ended) if ended else {"id": str(execution_id)},
        "job_ended": over,
    }
    end = "and the job has ended" if over else "and the job continues with its next due time"
    why = _why(ended) if ended else ""
    text = f"{job.title} has used up its retries{why}, {end}."
    return Notice(NoticeKind.FAILED_FOR_GOOD, f"{NoticeKind.FAILED_FOR_GOOD}:{execution_id}", at, job.id, text, about)


def _skip(job: Job, skip: Skip) -> Notice:
    named = Named(job.id, job.definition)
    about = {
        "reason": skip.reason.value,
        "count": skip.count,
        "first_due_at": plain(skip.first_due_at),
        "last_due_at": plain(skip.last_due_at),
    }
    times = "One due time" if skip.count == 1 else f"{skip.count} due times"
    text = f"{named.title}: {times} not run ({skip.reason.value})."
    return Notice(
        NoticeKind.SKIP,
        f"{NoticeKind.SKIP}:{skip.id}",
        skip.recorded_at,
        job.id,
        text,
        {"job": named.shown, "skip": about},
    )


def _late(job: Named, run: Live | Execution, execution_id: UUID, at: datetime, what: str) -> Notice:
    shown = {name: plain(getattr(run, name)) for name in ("id", "number", "attempt", "due_at", "run_at", "started_at")}
    about = {"job": job.shown, "execution": shown}
    return Notice(
        NoticeKind.LATE_START,
        f"{NoticeKind.LATE_START}:{execution_id}",
        at,
        job.id,
        f"{job.title} {what}.",
        about,
    )


def _execution(ended: Execution) -> dict[str, Any]:
    names = (
        "id",
        "number",
        "attempt",
        "outcome",
        "due_at",
        "run_at",
        "started_at",
        "finished_at",
        "worker_id",
    )
    shown = {name: plain(getattr(ended, name)) for name in names}
    took = None if ended.started_at is None else ended.finished_at - ended.started_at
    duration = None if took is None else round(took / timedelta(milliseconds=1))
    return shown | {"duration_ms": duration, "error": _error(ended) or None}


def _why(ended: Execution) -> str:
    error = _error(ended)
    return f": {error[:500]}" if error and ended.outcome.is_failure else ""


def _error(ended: Execution) -> str:
    return ": ".join(part for part in (ended.error_kind, ended.error) if part)
