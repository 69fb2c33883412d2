"""Hooks, thresholds and notices: which notice a change makes, and for whom."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from ostinato.core.model import Change, Definition, Ending, Execution, Job, Live, Skip
from ostinato.core.outcome import OutcomeKind
from ostinato.core.times import format_duration

# -- Hooks: receivers of notices, and the form of a notice.
#
# Each notice has a topic, and a hook gets one notice of a topic. So two processes, or two checks, may find the same
# thing. `text` is a sentence for a person.


class NoticeKind(StrEnum):
    """The kinds of notices."""

    FINISH = "finish"
    FAILURE = "failure"
    RECOVERY = "recovery"
    SKIP = "skip"
    LATE_START = "late_start"
    LONG_RUN = "long_run"
    FAILED_FOR_GOOD = "failed_for_good"


class Measure(StrEnum):
    """The figure that a threshold watches, over a window."""

    SUCCESS_RATE = "success_rate"
    DURATION = "duration"
    LOSSES = "losses"


TEST: Final = "test"
OF_SUCCESSES: Final = frozenset({NoticeKind.FINISH, NoticeKind.RECOVERY, NoticeKind.LATE_START})


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit of a measure over a window; a hook gets at most one notice in each window.

    success_rate: the percentage of a job's executions that succeeded is below the limit. duration: a job's completed
    runs took on average more than `limit` times as long as before the window. losses: at least `limit` executions of
    the hook's jobs were lost.
    """

    measure: Measure
    limit: float
    window: timedelta
    least: int = 1  # with fewer executions a job gives no notice


@dataclass(frozen=True, slots=True)
class Hook:
    """A receiver of notices, and their kinds."""

    id: UUID
    url: str
    kinds: tuple[NoticeKind, ...]
    job_id: UUID | None  # None: of all jobs
    secret: str  # its place (env:SECRET_NAME, file:/run/secrets/NAME); empty: none
    late_after: timedelta
    thresholds: tuple[Threshold, ...]
    description: str
    created_at: datetime
    created_by: str

    def looks_at(self, job_id: UUID) -> bool:
        return self.job_id is None or self.job_id == job_id


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to a hook."""

    kind: str
    topic: str
    at: datetime
    job_id: UUID | None
    text: str
    about: dict[str, Any]

    def body(self, notice_id: UUID, hook_id: UUID) -> dict[str, Any]:
        """Return the JSON body that is sent."""
        head = {"id": notice_id, "hook_id": hook_id, "kind": self.kind, "at": self.at, "text": self.text}
        return {name: plain(value) for name, value in head.items()} | self.about


@dataclass(frozen=True, slots=True)
class Named:
    """A job, as a notice names it."""

    id: UUID
    definition: Definition

    @property
    def title(self) -> str:
        return f"Job {self.definition.name or self.definition.key or self.definition.task}"

    @property
    def shown(self) -> dict[str, Any]:
        named = self.definition
        return {
            "id": str(self.id),
            "key": named.key,
            "name": named.name,
            "task": named.task,
            "queue": named.queue,
        }


def short(span: timedelta) -> str:
    """Write a duration as a person would say it."""
    if span < timedelta(minutes=1):
        return f"{round(span.total_seconds(), 1):g}s"
    return format_duration(timedelta(seconds=round(span.total_seconds())))


def plain(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)


# -- Notices for hooks, made from the changes of jobs


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


# -- Thresholds: figures that are beyond their limit over a window


@dataclass(frozen=True, slots=True)
class WindowFigures:
    """A job over a window."""

    job_id: UUID
    completed: int
    failed: int  # lost ones included
    lost: int
    average: timedelta | None  # of the completed ones
    usual: timedelta | None  # the average before the window; read only where a threshold needs it


def beyond(threshold: Threshold, job: Named | None, figures: WindowFigures, now: datetime) -> Notice | None:
    """Return a notice if a job exceeds a threshold (losses: all jobs together, and `job` is None)."""
    measured = _measured(threshold, figures)
    if measured is None:
        return None
    value, sentence = measured
    window = int(now.timestamp() // threshold.window.total_seconds())  # which one, counted since 1970
    whose = "The jobs together" if job is None else job.title
    about = {
        "measure": threshold.measure.value,
        "limit": threshold.limit,
        "window": format_duration(threshold.window),
        "value": round(value, 3),
        "completed": figures.completed,
        "failed": figures.failed,
        "lost": figures.lost,
    }
    job_id = None if job is None else job.id
    return Notice(
        threshold.measure,
        f"{threshold.measure}:{threshold.limit:g}:{about['window']}:{job_id or 'all'}:{window}",
        now,
        job_id,
        f"{whose}: {sentence} in the last {about['window']}.",
        {"threshold": about} | ({} if job is None else {"job": job.shown}),
    )


def before(topic: str) -> str:
    """Return the topic of the window before: a hook that got its notice needs no second one at once."""
    same, _, window = topic.rpartition(":")
    return f"{same}:{int(window) - 1}"


def _measured(threshold: Threshold, figures: WindowFigures) -> tuple[float, str] | None:
    """Return the figure and its sentence, if it is beyond the limit."""
    count = figures.completed + figures.failed
    match threshold.measure:
        case Measure.LOSSES:
            if figures.lost >= threshold.limit:
                return figures.lost, f"{figures.lost} executions were lost"
        case Measure.SUCCESS_RATE:
            rate = 100 * figures.completed / count if count else 100.0
            if count >= threshold.least and rate < threshold.limit:
                return rate, f"{rate:.1f} % of {count} executions succeeded"
        case Measure.DURATION:
            average, usual = figures.average, figures.usual
            if average is None or not usual or figures.completed < threshold.least:
                return None
            times = average / usual
            if times > threshold.limit:
                return times, f"runs took {short(average)} on average, {times:.1f} times as long as usual"
    return None
