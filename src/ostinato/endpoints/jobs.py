"""Questions about jobs and their deletion, and the controls of one: pause, resume, cancel, retry, restart."""

from collections.abc import Iterable
from dataclasses import replace

from ostinato.core.access import Role
from ostinato.core.model import Status
from ostinato.endpoints.table import Ask, JobRef, Table
from ostinato.service import JobView, Service
from ostinato.shapes.answers import JsonObject
from ostinato.shapes.executions import SkipAnswer, SkipList, WhyAnswer
from ostinato.shapes.job_answer import JobAnswer, JobList
from ostinato.shapes.queries import JobQuery, NextQuery, RetryQuery, SkipQuery, TimesAnswer, WhyQuery, refuse_both

# -- Jobs as endpoints answer them


def answers(service: Service, views: Iterable[JobView]) -> list[JobAnswer]:
    """Return the answers for jobs, each with the outcome of its newest run."""
    views = service.jobs.with_reasons(list(views))
    last = service.jobs.last_runs(views) if views else {}
    return [JobAnswer.of(view, last.get(view.id)) for view in views]


def answer(ask: Ask, view: JobView) -> JobAnswer:
    """Return the answer for a job, with its version as ETag."""
    ask.headers["ETag"] = f'"{view.facts.version}"'
    return answers(ask.service, [view])[0]


# -- Questions about jobs: list, count, get, due times, skips, why; and deletion

TABLE = Table("jobs")


class _Gone(JsonObject):
    """The answer to a deletion."""

    message: str


@TABLE.get("/jobs", Role.VIEWER)
def list_jobs(ask: Ask, asked: JobQuery) -> JobList:
    """List the jobs of all apps, the newest first."""
    page = ask.service.jobs.search(
        asked.filter(), sort=asked.sort, limit=asked.limit, offset=asked.offset, cursor=asked.cursor
    )
    refuse_both(asked)
    return JobList(
        jobs=answers(ask.service, page.items),
        total=page.total,
        limit=asked.limit,
        offset=asked.offset,
        cursor=page.cursor,
    )


@TABLE.get("/jobs/status-counts", Role.VIEWER)
def count_jobs(ask: Ask) -> dict[Status, int]:
    """Count jobs by status."""
    return ask.service.status_counts()


@TABLE.get("/jobs/{id}", Role.VIEWER)
def get_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Get a job by its id or its key."""
    return answer(ask, ask.service.jobs.get(ref))


@TABLE.delete("/jobs/{id}", Role.ADMIN)
def delete_job(ask: Ask, ref: JobRef) -> _Gone:
    """Delete a job with its history. A run in progress is asked to stop. A declared job stays deleted."""
    deleted = ask.service.jobs.delete(ref, by=ask.by.name)
    message = f"Job {ref} is deleted."
    if deleted.stop is not None:
        message += f" {deleted.stop.sentence}"
    if deleted.declined:
        message += f" Its app does not create it again, until you run: ostinato job redeclare {deleted.declined}"
    return _Gone(message=message)


@TABLE.get("/jobs/{id}/next", Role.VIEWER)
def next_times(ask: Ask, ref: JobRef, asked: NextQuery) -> TimesAnswer:
    """List the next due times of a job. There are none while it is paused, or after its end.

    The search uses 250 ms of CPU time at most; `complete` is false if that was too little.
    """
    view = ask.service.jobs.get(ref)
    return TimesAnswer.of(view.definition.schedule, ask.service.jobs.foreseen(view.id, asked.n, ask.allowed()))


@TABLE.get("/jobs/{id}/skips", Role.VIEWER)
def list_skips(ask: Ask, ref: JobRef, asked: SkipQuery) -> SkipList:
    """List the skipped due times with their reasons, the newest first."""
    view = ask.service.jobs.get(ref)
    found = ask.service.jobs.skips(view.id, asked.limit)
    return SkipList(skips=[SkipAnswer.of(skip) for skip in found], skipped=view.facts.skipped, limit=asked.limit)


@TABLE.get("/jobs/{id}/why", Role.VIEWER)
def why(ask: Ask, ref: JobRef, asked: WhyQuery) -> WhyAnswer:
    """Explain the occurrence at or before an instant, as data and as sentences."""
    return WhyAnswer.of(ask.service.jobs.why(ref, asked.at))


# -- Controls of one job: pause, resume, cancel, retry, restart

CONTROL = TABLE.tagged("control")


@CONTROL.post("/jobs/{id}/pause", Role.OPERATOR)
def pause_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Pause a job: no run starts after the answer; a run in progress may finish.

    The answer says paused even while a run finishes, as in the interval scheduler; lock_token names that run.
    """
    return replace(answer(ask, ask.service.jobs.pause(ref, by=ask.by.name)), status=Status.PAUSED)


@CONTROL.post("/jobs/{id}/resume", Role.OPERATOR)
def resume_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Resume a job without catching up: its next due time is after now."""
    return answer(ask, ask.service.jobs.resume(ref, by=ask.by.name))


@CONTROL.post("/jobs/{id}/cancel", Role.OPERATOR)
def cancel_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Cancel a job for good. A run in progress is asked to stop."""
    return answer(ask, ask.service.jobs.cancel(ref, by=ask.by.name))


@CONTROL.post("/jobs/{id}/retry", Role.OPERATOR)
def retry_job(ask: Ask, ref: JobRef, asked: RetryQuery) -> JobAnswer:
    """Retry the failed occurrence at once, with all its retries again."""
    return answer(ask, ask.service.jobs.retry(ref, by=ask.by.name, from_start=asked.from_start))


@CONTROL.post("/jobs/{id}/restart", Role.OPERATOR)
def restart_job(ask: Ask, ref: JobRef) -> JobAnswer:
    """Restart a job that has ended, as new."""
    return answer(ask, ask.service.jobs.restart(ref, by=ask.by.name))
