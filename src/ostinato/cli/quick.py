"""Answers to frequent requests, without the HTTP application.

The import of FastAPI and its routes takes twice as long as the rest of a command. So these reads and controls use the
shapes and the service directly, in a line or two each. Other requests, and malformed ones, go to the application.
Tests require the same answer from both.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

from pydantic import BaseModel

from ostinato.cli.client import ApiReply, Request
from ostinato.core.errors import Invalid, OstinatoError
from ostinato.core.searching import no_limit
from ostinato.service import JobView, Service
from ostinato.shapes.errors import answer_of, status_of
from ostinato.shapes.executions import ExecutionAnswer, ExecutionList
from ostinato.shapes.job_answer import JobAnswer, JobList
from ostinato.shapes.previews import TimesAnswer
from ostinato.shapes.queries import AllExecutionsQuery, ExecutionQuery, JobQuery, NextQuery, refuse_both
from ostinato.shapes.statistics import JobStatsAnswer, MetricsAnswer
from ostinato.shapes.workers import QueueAnswer, QueueList, WorkerAnswer, WorkerList

Asked = Mapping[str, Any]
Question = Callable[[Service, str, Asked], BaseModel]

CONTROLS: Final = {"pause": 200, "resume": 200, "cancel": 200, "retry": 200, "run": 202, "restart": 200}
CONTROL: Final = re.compile(rf"/jobs/([^/]+)/({'|'.join(CONTROLS)})")


def answer_quickly(api: Service, by: str, request: Request) -> ApiReply | None:
    """Return the answer to a frequent request; None for a request that needs the application."""
    if request.headers or request.body is not None:
        return None
    asked = {name: value for name, value in request.query.items() if value is not None}
    if request.method == "POST" and not asked and (found := CONTROL.fullmatch(request.path)):
        return _steered(api, by, _plain(found[1]), found[2])
    for pattern, question in QUESTIONS.items() if request.method == "GET" else ():
        if found := re.fullmatch(pattern, request.path):
            try:
                return _reply(200, question(api, _plain(found[1]) if found.groups() else "", asked))
            except Exception:  # noqa: BLE001  a read changes nothing: the application repeats it and reports the error
                return None
    return None


def _steered(api: Service, by: str, ref: str, action: str) -> ApiReply:
    """Run the control, and answer its errors here: a second request could run it twice."""
    try:
        view = getattr(api.jobs, action)(ref, by=by)
        return _reply(CONTROLS[action], _jobs(api, [view])[0])
    except OstinatoError as error:
        return _reply(status_of(error), answer_of(error))


def _list_jobs(api: Service, _: str, query: Asked) -> BaseModel:
    asked = JobQuery.model_validate(query)
    page = api.jobs.search(asked.filter(), sort=asked.sort, limit=asked.limit, offset=asked.offset, cursor=asked.cursor)
    refuse_both(asked)
    jobs = _jobs(api, page.items)
    return JobList(jobs=jobs, total=page.total, limit=asked.limit, offset=asked.offset, cursor=page.cursor)


def _get_job(api: Service, ref: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    return _jobs(api, [api.jobs.get(ref)])[0]


def _next_times(api: Service, ref: str, query: Asked) -> BaseModel:
    asked, view = NextQuery.model_validate(query), api.jobs.get(ref)
    return TimesAnswer.of(view.definition.schedule, api.jobs.foreseen(view.id, asked.n, no_limit))


def _job_stats(api: Service, ref: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    return JobStatsAnswer.of(api.jobs.stats(ref))


def _list_executions_of(api: Service, ref: str, query: Asked) -> BaseModel:
    return _executions(api, ref, ExecutionQuery.model_validate(query))


def _list_executions(api: Service, _: str, query: Asked) -> BaseModel:
    asked = AllExecutionsQuery.model_validate(query)
    return _executions(api, asked.job, asked)


def _executions(api: Service, job: str | None, asked: ExecutionQuery) -> BaseModel:
    page = api.executions.search(
        job, states=asked.status, task=asked.task, limit=asked.limit, offset=asked.offset, cursor=asked.cursor
    )
    refuse_both(asked)
    runs = [ExecutionAnswer.of(view) for view in page.items]
    return ExecutionList(executions=runs, total=page.total, limit=asked.limit, offset=asked.offset, cursor=page.cursor)


def _get_execution(api: Service, ref: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    return ExecutionAnswer.of(api.executions.get(_id(ref)))


def _list_workers(api: Service, _: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    now = api.now()
    found = [WorkerAnswer.of(row, now) for row in api.workers()]
    return WorkerList(workers=found, total=len(found))


def _list_queues(api: Service, _: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    found = [QueueAnswer.of(row) for row in api.queues()]
    return QueueList(queues=found, total=len(found))


def _metrics(api: Service, _: str, query: Asked) -> BaseModel:
    _nothing_else(query)
    return MetricsAnswer.of(api.metrics())


QUESTIONS: Final[Mapping[str, Question]] = {
    "/jobs": _list_jobs,
    "/jobs/([^/]+)": _get_job,
    "/jobs/([^/]+)/next": _next_times,
    "/jobs/([^/]+)/stats": _job_stats,
    "/jobs/([^/]+)/executions": _list_executions_of,
    "/executions": _list_executions,
    "/executions/([^/]+)": _get_execution,
    "/workers": _list_workers,
    "/queues": _list_queues,
    "/scheduler/metrics": _metrics,
}


def _jobs(api: Service, views: Iterable[JobView]) -> list[JobAnswer]:
    views = api.jobs.with_reasons(list(views))
    last = api.jobs.last_runs(views) if views else {}
    return [JobAnswer.of(view, last.get(view.id)) for view in views]


def _reply(status: int, answer: BaseModel) -> ApiReply:
    return ApiReply(status, answer.model_dump_json(exclude_none=status >= 400).encode(), {})


def _plain(part: str) -> str:
    return unquote(part)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid("An id is a UUID.") from None


def _nothing_else(query: Asked) -> None:
    if query:
        raise Invalid("This request takes no parameters.")
