"""Runs and hourly counts as dots and bars of charts, with their tooltips."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from ostinato.core.model import Status
from ostinato.core.outcome import OutcomeKind
from ostinato.core.read_models import Hour, Ran
from ostinato.dashboard.charts import Bar, Dot, Scatter
from ostinato.dashboard.formatting import clock_text, in_zone, many, took
from ostinato.service import JobView

OUTCOMES = (("completed", "completed"), ("cancelled", "cancelled"), ("failed", "failed, timed out or lost"))


def dots(runs: Iterable[Ran], visit_zone: str) -> list[Dot]:
    """Return a dot for each run."""
    return [Dot(ran.outcome.value, ran.duration, _told(ran, visit_zone)) for ran in runs]


def _told(ran: Ran, visit_zone: str) -> str:
    how = ran.outcome.value.replace("_", " ") + (f", {ran.error_kind}" if ran.error_kind else "")
    which = f"#{ran.number}" + (f", retry {ran.attempt}" if ran.attempt else "")
    return f"{which}: {how}, {took(ran.duration)}\n{in_zone(ran.due_at, visit_zone)}"


def spark_dots(view: JobView, runs: Sequence[Ran]) -> list[Dot]:
    """Return dots for the newest runs of a job, and one for its current run."""
    now = [Dot("running", None)] if view.status is Status.RUNNING else []
    return [*(Dot(ran.outcome.value, ran.duration) for ran in runs), *now]


def durations(runs: Sequence[Ran], visit_zone: str) -> Scatter:
    """Chart the durations of runs. An outlier is three times the distance of the upper quartile from the median."""
    took_long = sorted(
        ran.duration for ran in runs if ran.outcome is OutcomeKind.COMPLETED and ran.duration is not None
    )
    if not took_long:
        return Scatter(dots(runs, visit_zone), None, None)
    middle, upper = took_long[len(took_long) // 2], took_long[len(took_long) * 3 // 4]
    far = max(middle + 6 * (upper - middle), 2 * middle, timedelta(milliseconds=100))
    return Scatter(dots(runs, visit_zone), middle, far)


def hour_bars(hours: Sequence[Hour], visit_zone: str) -> list[Bar]:
    """Return bars of executions per hour, by outcome."""
    return [_hour(hour, visit_zone) for hour in hours]


def _hour(hour: Hour, visit_zone: str) -> Bar:
    at = clock_text(hour.at, hour.at - timedelta(days=1), visit_zone)
    if hour.ended is None:
        return Bar((), f"{at}: not counted yet", is_known=False)
    ended = hour.ended
    failed = ended[OutcomeKind.FAILED] + ended[OutcomeKind.TIMED_OUT] + ended[OutcomeKind.LOST]
    title = f"{at}\n{many(ended[OutcomeKind.COMPLETED], 'completed', 'completed')}, {failed:,} failed"
    cancelled = f", {ended[OutcomeKind.CANCELLED]:,} cancelled" if ended[OutcomeKind.CANCELLED] else ""
    parts = (
        ("completed", ended[OutcomeKind.COMPLETED]),
        ("cancelled", ended[OutcomeKind.CANCELLED]),
        ("failed", failed),
    )
    return Bar(parts, title + cancelled)
