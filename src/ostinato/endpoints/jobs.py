"""Questions about jobs: list, count, get, due times, skips, why; and deletion."""

from ostinato.core.access import Role
from ostinato.core.model import Status
from ostinato.endpoints.job_answers import answer, answers
from ostinato.endpoints.table import Ask, JobRef, Table
from ostinato.shapes.answers import JsonObject
from ostinato.shapes.due_times import TimesAnswer
from ostinato.shapes.executions import SkipAnswer, SkipList
from ostinato.shapes.job_answer import JobAnswer, JobList
from ostinato.shapes.queries import JobQuery, NextQuery, SkipQuery, WhyQuery, refuse_both
from ostinato.shapes.why import WhyAnswer

TABLE = Table("jobs")


class Gone(JsonObject):
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
def delete_job(ask: Ask, ref: JobRef) -> Gone:
    """Delete a job with its history. A run in progress is asked to stop. A declared job stays deleted."""
    deleted = ask.service.jobs.delete(ref, by=ask.by.name)
    message = f"Job {ref} is deleted."
    if deleted.stop is not None:
        message += f" {deleted.stop.sentence}"
    if deleted.declined:
        message += f" Its app does not create it again, until you run: ostinato job redeclare {deleted.declined}"
    return Gone(message=message)


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
