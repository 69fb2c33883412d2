"""Steering jobs: pause, resume, cancel, retry, run, restart."""

from typing import Any

from fastapi import APIRouter

from ostinato.api.caller import Operator
from ostinato.api.desk import Desk
from ostinato.api.jobs import Ref
from ostinato.wire.job_answer import JobAnswer
from ostinato.wire.words import Words

router = APIRouter(tags=["control"])


class RunBody(Words):
    """How to run: with other args than the job's."""

    args: dict[str, Any] | None = None


@router.post("/jobs/{id}/pause")
def pause_job(ref: Ref, desk: Desk, by: Operator) -> JobAnswer:
    """From the answer on nothing of the job starts; what runs may finish."""
    return JobAnswer.of(desk.jobs.pause(ref, by=by.name))


@router.post("/jobs/{id}/resume")
def resume_job(ref: Ref, desk: Desk, by: Operator) -> JobAnswer:
    """Go on without catching up: the next time is counted from now."""
    return JobAnswer.of(desk.jobs.resume(ref, by=by.name))


@router.post("/jobs/{id}/cancel")
def cancel_job(ref: Ref, desk: Desk, by: Operator) -> JobAnswer:
    """Stop for good; what runs is told to stop."""
    return JobAnswer.of(desk.jobs.cancel(ref, by=by.name))


@router.post("/jobs/{id}/retry")
def retry_job(ref: Ref, desk: Desk, by: Operator) -> JobAnswer:
    """Go on with the failed occurrence, at once and with a fresh budget."""
    return JobAnswer.of(desk.jobs.retry(ref, by=by.name))


@router.post("/jobs/{id}/run", status_code=202)
def run_job(ref: Ref, desk: Desk, by: Operator, body: RunBody | None = None) -> JobAnswer:
    """An extra run now, with other args if given; the schedule does not move."""
    return JobAnswer.of(desk.jobs.run(ref, None if body is None else body.args, by=by.name))


@router.post("/jobs/{id}/restart")
def restart_job(ref: Ref, desk: Desk, by: Operator) -> JobAnswer:
    """Begin an ended job as new."""
    return JobAnswer.of(desk.jobs.restart(ref, by=by.name))
