"""RQ as the engine: ordinary RQ workers run due jobs; the database stores everything else.

    rq worker default --with-scheduler --serializer json       with OSTINATO_APP=shop:app in its environment

The functions of seed 001 have the same names here. Each run enqueues the next one, so no scheduler process is needed.
`python -m ostinato.rq` is one worker of a `Crew` (features/rq/engine.py), with its order on stdin.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ostinato.config.extras import need

try:
    from redis import Redis
    from rq import get_current_job
    from rq.job import Job as Entry
except ImportError:
    need("rq", "rq", "ostinato.rq")
    raise

from ostinato.app import Ostinato
from ostinato.app.loading import load_app
from ostinato.core.errors import InvalidSetting, OstinatoError
from ostinato.engine.duties import until_available
from ostinato.features.rq.messages import connect
from ostinato.features.rq.run import RqEngine
from ostinato.features.rq.worker import RqWorker, wait_for_redis
from ostinato.isolation.system import tell_when_parent_ends
from ostinato.service import JobView

__all__ = [
    "Worker",
    "dispatch_event",
    "execute_scheduled_job",
    "recover_scheduled_jobs",
    "start_scheduled_job",
    "stopped",
    "use",
]

APP: Final = "OSTINATO_APP"

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


class Worker(RqWorker):
    """Worker for `rq worker -w ostinato.rq.Worker` and `ostinato worker --engine rq`. Its messages are JSON."""

    def engine(self) -> RqEngine:
        return _opened(self.connection)


def join(order: Mapping[str, Any]) -> None:
    """Work as an RQ worker for the app of the order, until a signal."""
    tell_when_parent_ends(signal.SIGTERM)
    app = load_app(order["app"])
    app.configure(**order["chosen"])
    connection = connect(app.settings.redis_url.reveal())
    use(app, connection)
    known = until_available(lambda: app.scheduler.queues())
    queues = app.settings.queues or sorted({"default", *(queue.name for queue in known)})
    wait_for_redis(rq_engine)
    Worker(list(queues), connection=connection).work(with_scheduler=True, logging_level="WARNING")


if __name__ == "__main__":
    from ostinato import rq  # the module that messages name, not this copy of it

    try:
        rq.join(json.load(sys.stdin))
    except OstinatoError as error:
        sys.exit(str(error))
