"""Functions for RQ and for programs, under the names of seed 001."""

import os
import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from redis import Redis
from rq import get_current_job
from rq.job import Job as Entry

from ostinato.app import Ostinato
from ostinato.app.loading import load_app
from ostinato.core.errors import InvalidSetting
from ostinato.rq.run import RqEngine
from ostinato.rq_messages import connect
from ostinato.service import JobView

APP = "OSTINATO_APP"

_engine: RqEngine | None = None
_opening = threading.RLock()


def use(app: Ostinato, connection: Redis | None = None) -> None:
    """Use this app from now on; without a call, OSTINATO_APP names the app."""
    global _engine
    with _opening:
        _engine = RqEngine(app, connection or _connection(app))


def execute_scheduled_job(job_id: str) -> None:
    """Fire the due times of a job, claim one, run it, and enqueue the next. RQ's workers call this."""
    mine = get_current_job()
    _opened(None if mine is None else mine.connection).execute(UUID(job_id), mine)


def start_scheduled_job(job: JobView | UUID | str) -> int:
    """Enqueue the next run of a job if it is missing; return the number of missing messages."""
    job_id = job.id if isinstance(job, JobView) else UUID(str(job))
    return _opened(None).messages.sync([job_id])


def recover_scheduled_jobs() -> int:
    """Enqueue the messages that Redis should have and has not; return their number."""
    return _opened(None).recover()


def dispatch_event(kind: str, data: Any = None, user: object = None) -> Sequence[JobView]:
    """Start every trigger node of active workflows that waits for this kind of event."""
    from ostinato.features.workflows.service import WorkflowService

    workflows = _opened(None).app.scheduler.part(WorkflowService)
    return workflows.dispatch_event(kind, data, by="" if user is None else str(user))


def stopped(entry: Entry, _: object) -> None:
    """End a run that RQ's worker has killed after a stop command."""
    _opened(entry.connection).end_stopped(entry)


def rq_engine(connection: Redis | None = None) -> RqEngine:
    """Return the RQ engine of this process, opened on first use."""
    return _opened(connection)


def _opened(connection: Redis | None) -> RqEngine:
    global _engine
    with _opening:
        if _engine is None:
            app = load_app(os.environ.get(APP) or None)
            _engine = RqEngine(app, connection or _connection(app))
        return _engine


def _connection(app: Ostinato) -> Redis:
    if not app.settings.redis_url:
        raise InvalidSetting("redis_url is not set: say where Redis is, such as OSTINATO_REDIS_URL=redis://localhost.")
    return connect(app.settings.redis_url.reveal())
