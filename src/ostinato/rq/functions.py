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
from ostinato.rq.run import Office
from ostinato.rq_messages import connect
from ostinato.service import JobView

APP = "OSTINATO_APP"

_office: Office | None = None
_opening = threading.RLock()


def use(app: Ostinato, connection: Redis | None = None) -> None:
    """Work for this app from now on; without a call it is the one that OSTINATO_APP names."""
    global _office
    with _opening:
        _office = Office(app, connection or _connection(app))


def execute_scheduled_job(job_id: str) -> None:
    """Fire the due times of a job, claim one, run it, and enqueue the next: RQ's workers call this."""
    mine = get_current_job()
    _at_work(None if mine is None else mine.connection).execute(UUID(job_id), mine)


def start_scheduled_job(job: JobView | UUID | str) -> int:
    """Make sure that the next run of a job is enqueued: how many messages were missing."""
    job_id = job.id if isinstance(job, JobView) else UUID(str(job))
    return _at_work(None).courier.carry([job_id])


def recover_scheduled_jobs() -> int:
    """Enqueue what should be in Redis and is not: how many messages. Called twice, the second finds nothing to do."""
    return _at_work(None).recover()


def dispatch_event(kind: str, data: Any = None, user: object = None) -> Sequence[JobView]:
    """Set off every trigger node of active workflows that waits for this kind."""
    office = _at_work(None)
    return office.app.scheduler.workflows.dispatch_event(kind, data, by="" if user is None else str(user))


def stopped(entry: Entry, _: object) -> None:
    """End a run that RQ's worker has killed because it was told to stop it."""
    _at_work(entry.connection).end_stopped(entry)


def the_office(connection: Redis | None = None) -> Office:
    """Return the office of this process, opened on first use."""
    return _at_work(connection)


def _at_work(connection: Redis | None) -> Office:
    global _office
    with _opening:
        if _office is None:
            app = load_app(os.environ.get(APP) or None)
            _office = Office(app, connection or _connection(app))
        return _office


def _connection(app: Ostinato) -> Redis:
    if not app.settings.redis_url:
        raise InvalidSetting(
            "redis_url is not set: say where Redis is, such as OSTINATO_REDIS_URL=redis://localhost."
        )
    return connect(app.settings.redis_url.reveal())
