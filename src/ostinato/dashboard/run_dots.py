"""Runs as marks in small charts: a page hands over what was, a chart gets dots with their words."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from ostinato.core.model import Result, Status
from ostinato.dashboard.charts import Bar, Dot, Scatter
from ostinato.dashboard.formatting import clock_text, in_zone, many, took
from ostinato.service import JobView
from ostinato.store.dashboard import Ran
from ostinato.store.hourly_counts import Hour

OUTCOMES = (("completed", "completed"), ("cancelled", "cancelled"), ("failed", "failed, timed out or lost"))


def dots(runs: Iterable[Ran], visit_zone: str) -> list[Dot]:
    """One for each run."""
    return [Dot(ran.result.value, ran.duration, _told(ran, visit_zone)) for ran in runs]


def _told(ran: Ran, visit_zone: str) -> str:
    how = ran.result.value.replace("_", " ") + (f", {ran.error_kind}" if ran.error_kind else "")
    which = f"#{ran.number}" + (f", retry {ran.attempt}" if ran.attempt else "")
    return f"{which}: {how}, {took(ran.duration)}\n{in_zone(ran.due_at, visit_zone)}"


def spark_dots(view: JobView, runs: Sequence[Ran]) -> list[Dot]:
    """The newest runs of a job, and what it does now."""
    now = [Dot("running", None)] if view.status is Status.RUNNING else []
    return [*(Dot(ran.result.value, ran.duration) for ran in runs), *now]


def durations(runs: Sequence[Ran], visit_zone: str) -> Scatter:
    """Chart the durations of runs. An outlier is three times the distance of the upper quartile from the median."""
    took_long = sorted(
        ran.duration for ran in runs if ran.result is Result.COMPLETED and ran.duration is not None
    )
    if not took_long:
        return Scatter(dots(runs, visit_zone), None, None)
    middle, upper = took_long[len(took_long) // 2], took_long[len(took_long) * 3 // 4]
    far = max(middle + 6 * (upper - middle), 2 * middle, timedelta(milliseconds=100))
    return Scatter(dots(runs, visit_zone), middle, far)


def hour_bars(hours: Sequence[Hour], visit_zone: str) -> list[Bar]:
    """Executions per hour, by outcome."""
    return [_hour(hour, visit_zone) for hour in hours]


def _hour(hour: Hour, visit_zone: str) -> Bar:
    at = clock_text(hour.at, hour.at - timedelta(days=1), visit_zone)
    if hour.ended is None:
        return Bar((), f"{at}: not counted yet", is_known=False)
    ended = hour.ended
    failed = ended[Result.FAILED] + ended[Result.TIMED_OUT] + ended[Result.LOST]
    told = f"{at}\n{many(ended[Result.COMPLETED], 'completed', 'completed')}, {failed:,} failed"
    cancelled = f", {ended[Result.CANCELLED]:,} cancelled" if ended[Result.CANCELLED] else ""
    parts = (
        ("completed", ended[Result.COMPLETED]),
        ("cancelled", ended[Result.CANCELLED]),
        ("failed", failed),
    )
    return Bar(parts, told + cancelled)
