"""Figures, and when schedules come round."""

from ostinato.api.caller import Viewer
from ostinato.api.desk import AtThisDesk, Desk
from ostinato.api.jobs import Ref
from ostinato.api.routers import api_router
from ostinato.scheduler.allowance import allowance
from ostinato.wire.previews import PreviewBody, TimesAnswer, previewed
from ostinato.wire.statistics import JobStatsAnswer, MetricsAnswer

router = api_router("statistics")


@router.get("/jobs/{id}/stats")
def job_stats(ref: Ref, desk: Desk, by: Viewer) -> JobStatsAnswer:
    """A job in figures."""
    return JobStatsAnswer.of(desk.jobs.stats(ref))


@router.get("/scheduler/metrics")
def scheduler_metrics(desk: Desk, by: Viewer) -> MetricsAnswer:
    """Everything in figures, of all apps."""
    return MetricsAnswer.of(desk.metrics())


@router.post("/preview")
def preview_schedule(body: PreviewBody, here: AtThisDesk, by: Viewer) -> TimesAnswer:
    """Preview a schedule: its next due times, and its description. Nothing is stored.

    The search uses 250 ms of CPU time at most; `complete` is false when that was too little.
    """
    return previewed(body, here, allowance())
