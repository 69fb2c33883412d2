"""Statistics of one job and of all jobs."""

from ostinato.core.access import Role
from ostinato.endpoints.table import Ask, JobRef, Table
from ostinato.shapes.statistics import JobStatsAnswer, MetricsAnswer

TABLE = Table("statistics")


@TABLE.get("/jobs/{id}/stats", Role.VIEWER)
def job_stats(ask: Ask, ref: JobRef) -> JobStatsAnswer:
    """Get the statistics of a job."""
    return JobStatsAnswer.of(ask.service.jobs.stats(ref))


@TABLE.get("/scheduler/metrics", Role.VIEWER)
def scheduler_metrics(ask: Ask) -> MetricsAnswer:
    """Get the statistics of all jobs of all apps."""
    return MetricsAnswer.of(ask.service.metrics())
