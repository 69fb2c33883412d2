"""Controls of one job: pause, resume, cancel, retry, restart."""

from dataclasses import replace

from ostinato.core.access import Role
from ostinato.core.model import Status
from ostinato.endpoints.job_answers import answer
from ostinato.endpoints.table import Ask, JobRef, Table
from ostinato.shapes.job_answer import JobAnswer
from ostinato.shapes.queries import RetryQuery

TABLE = Table("control")


@TABLE.post("/jobs/{id}/pause", Role.OPERATOR)
def pause_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Pause a job: no run starts after the answer; a run in progress may finish.

    The status of the answer is paused (seed 003), even while a run finishes; lock_token names that run.
    """
    return replace(answer(ask, ask.service.jobs.pause(ref, by=ask.by.name)), status=Status.PAUSED)


@TABLE.post("/jobs/{id}/resume", Role.OPERATOR)
def resume_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Resume a job without catching up: its next due time is after now."""
    return answer(ask, ask.service.jobs.resume(ref, by=ask.by.name))


@TABLE.post("/jobs/{id}/cancel", Role.OPERATOR)
def cancel_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Cancel a job for good. A run in progress is asked to stop."""
    return answer(ask, ask.service.jobs.cancel(ref, by=ask.by.name))


@TABLE.post("/jobs/{id}/retry", Role.OPERATOR)
def retry_job(ask: Ask, ref: JobRef, asked: RetryQuery) -> JobAnswer:
    """Retry the failed occurrence at once, with all its retries again."""
    return answer(ask, ask.service.jobs.retry(ref, by=ask.by.name, from_start=asked.from_start))


@TABLE.post("/jobs/{id}/restart", Role.OPERATOR)
def restart_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Restart a job that has ended, as new."""
    return answer(ask, ask.service.jobs.restart(ref, by=ask.by.name))
