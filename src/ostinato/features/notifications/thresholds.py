"""Thresholds: figures that are beyond their limit over a window."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ostinato.core.duration import format_duration
from ostinato.features.notifications.hooks import Measure, Named, Notice, Threshold, short


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
