"""Workers, queues, tasks, statistics and events."""

from typing import Annotated, Final
from uuid import UUID

from ostinato.core.access import Role
from ostinato.core.errors import NotFound
from ostinato.core.payload import QUEUE_NAME
from ostinato.endpoints.table import Ask, InPath, JobRef, Table, header
from ostinato.shapes.openapi import pattern
from ostinato.shapes.operating import (
    EventAnswer,
    EventList,
    JobStatsAnswer,
    MetricsAnswer,
    QueueAnswer,
    QueueList,
    TaskAnswer,
    TaskList,
    WorkerAnswer,
    WorkerList,
)
from ostinato.shapes.queries import EventQuery, like

# -- Workers and queues: list, drain, pause, resume

TABLE = Table("workers")

WorkerId = Annotated[str, InPath("id", "The id of a worker.")]
QueueName = Annotated[str, InPath("name", "The name of a queue.", like(pattern(QUEUE_NAME)))]


@TABLE.get("/workers", Role.VIEWER)
def list_workers(ask: Ask) -> WorkerList:
    """List the workers seen within the last day."""
    now = ask.service.now()
    found = [WorkerAnswer.of(row, now) for row in ask.service.workers()]
    return WorkerList(workers=found, total=len(found))


@TABLE.post("/workers/{id}/drain", Role.OPERATOR)
def drain_worker(ask: Ask, worker: WorkerId) -> WorkerAnswer:
    """Ask a worker to drain: it finishes its runs, and claims no more."""
    worker_id = _id(worker)
    ask.service.drain(worker_id, by=ask.by.name)
    rows = (row for row in ask.service.workers() if row.id == worker_id)
    return WorkerAnswer.of(next(rows), ask.service.now())


@TABLE.get("/queues", Role.VIEWER)
def list_queues(ask: Ask) -> QueueList:
    """List all queues, with their waiting and running executions."""
    found = [QueueAnswer.of(row) for row in ask.service.queues()]
    return QueueList(queues=found, total=len(found))


@TABLE.post("/queues/{name}/pause", Role.OPERATOR)
def pause_queue(ask: Ask, queue: QueueName) -> QueueAnswer:
    """Pause a queue: no execution of it starts after the answer."""
    ask.service.pause_queue(queue, by=ask.by.name)
    return queue_answer(ask, queue)


@TABLE.post("/queues/{name}/resume", Role.OPERATOR)
def resume_queue(ask: Ask, queue: QueueName) -> QueueAnswer:
    """Resume a queue: its executions may start again."""
    ask.service.resume_queue(queue, by=ask.by.name)
    return queue_answer(ask, queue)


def queue_answer(ask: Ask, name: str) -> QueueAnswer:
    """Return the answer for a queue."""
    return next(QueueAnswer.of(row) for row in ask.service.queues() if row.name == name)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"There is no worker {text!r}; an id is a UUID.") from None


# -- Tasks and their arguments

TASKS = TABLE.tagged("tasks")

Name = Annotated[str, InPath("name", "The name of a task.")]


@TASKS.get("/tasks", Role.VIEWER)
def list_tasks(ask: Ask) -> TaskList:
    """List all known tasks with their arguments."""
    found = [TaskAnswer.of(view) for view in ask.service.tasks.list()]
    return TaskList(tasks=found, total=len(found))


@TASKS.get("/tasks/{name}", Role.VIEWER)
def get_task(ask: Ask, name: Name) -> TaskAnswer:
    """Get a task: its args as a JSON schema, and whether the settings allow it."""
    return TaskAnswer.of(ask.service.tasks.get(name))


# -- Statistics of one job and of all jobs

STATISTICS = TABLE.tagged("statistics")


@STATISTICS.get("/jobs/{id}/stats", Role.VIEWER)
def job_stats(ask: Ask, ref: JobRef) -> JobStatsAnswer:
    """Get the statistics of a job."""
    return JobStatsAnswer.of(ask.service.jobs.stats(ref))


@STATISTICS.get("/scheduler/metrics", Role.VIEWER)
def scheduler_metrics(ask: Ask) -> MetricsAnswer:
    """Get the statistics of all jobs of all apps."""
    return MetricsAnswer.of(ask.service.metrics())


# -- Events, as a list; rest/endpoints.py also has them as a stream

EVENTS = TABLE.tagged("events")

LAST_EVENT: Final = header("Last-Event-ID", "A stream continues after this event.", 4000)


@EVENTS.get("/events", Role.VIEWER, headers=(LAST_EVENT,))
def list_events(ask: Ask, asked: EventQuery) -> EventList:
    """List events, the newest first; with a cursor, list the events after it, the oldest first.

    With `Accept: text/event-stream` events are streamed live; `Last-Event-ID` (or `cursor`) continues without a gap.
    """
    job = None if asked.job is None else ask.service.jobs.get(asked.job).id
    if (since := ask.header("Last-Event-ID") or asked.cursor) is None:
        _, cursor = ask.service.feed(job).since(None)
        newest = ask.service.events(job, asked.kind, asked.limit)
        return EventList(events=[EventAnswer.of_event(event) for event in newest], cursor=cursor)
    items, following = ask.service.feed(job).since(since, asked.kind)
    return EventList(events=[EventAnswer.of(item) for item in items], cursor=following)
