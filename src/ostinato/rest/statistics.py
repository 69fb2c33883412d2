"""Endpoints of statistics, and the preview of a schedule."""

from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import BodyContextDep, ServiceDep
from ostinato.rest.jobs import Ref
from ostinato.rest.routers import api_router
from ostinato.service.allowance import allowance
from ostinato.shapes.previews import PreviewBody, TimesAnswer, previewed
from ostinato.shapes.statistics import JobStatsAnswer, MetricsAnswer

router = api_router("statistics")


@router.get("/jobs/{id}/stats")
def job_stats(ref: Ref, service: ServiceDep, by: Viewer) -> JobStatsAnswer:
    """Get the statistics of a job."""
    return JobStatsAnswer.of(service.jobs.stats(ref))


@router.get("/scheduler/metrics")
def scheduler_metrics(service: ServiceDep, by: Viewer) -> MetricsAnswer:
    """Get the statistics of all jobs of all apps."""
    return MetricsAnswer.of(service.metrics())


@router.post("/preview")
def preview_schedule(body: PreviewBody, here: BodyContextDep, by: Viewer) -> TimesAnswer:
    """Preview a schedule: its next due times and its description. Nothing is stored.

    The search uses 250 ms of CPU time at most; `complete` is false if that was too little.
    """
    return previewed(body, here, allowance())
