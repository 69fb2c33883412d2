"""The HTTP app, put together."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, FastAPI

from ostinato.access.credentials import Recognise, anybody
from ostinato.access.workload import Workload
from ostinato.api import (
    access,
    control,
    crawled,
    declined,
    docs,
    executions,
    hooks,
    jobs,
    keys,
    live,
    logs,
    providers,
    schedules,
    sources,
    statistics,
    tasks,
    templates,
    workers,
    workflows,
)
from ostinato.api.answering import ByMethod, NoSniff
from ostinato.api.caller import OPEN, Doorkeeper
from ostinato.api.document import Api
from ostinato.api.failures import answer_errors
from ostinato.api.reading import Reading
from ostinato.api.repeating import Repeating
from ostinato.api.streams import Streams
from ostinato.api.working import Working
from ostinato.config import Settings
from ostinato.scheduler import Scheduler

ROUTERS: Final = (
    jobs.router,
    control.router,
    declined.router,
    executions.router,
    schedules.router,
    logs.router,
    statistics.router,
    workers.router,
    tasks.router,
    templates.router,
    keys.router,
    access.router,
    hooks.router,
    providers.router,
    crawled.router,
    live.router,
    workflows.router,
    sources.router,
)


def create_app(
    desk: Scheduler,
    settings: Settings,
    *,
    recognise: Recognise = anybody,
    by_session: Recognise | None = None,
    routers: Sequence[APIRouter] = (),
    version: str = "",
) -> FastAPI:
    """The whole API around a front desk. `routers` are added to ours, as they are."""
    app = Api(
        title="Ostinato",
        version=version or "0",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk, app.state.settings, app.state.streams = desk, settings, Streams(desk)
    for router in (*ROUTERS, docs.router, *routers):
        app.router.routes.extend(router.routes)
    answer_errors(app)
    app.add_middleware(Repeating, repeats=desk.repeats)
    app.state.workload = Workload()
    app.add_middleware(Working, workload=app.state.workload)
    app.add_middleware(Reading)
    app.add_middleware(ByMethod, routes=app.router.routes)
    # The last one added is the first one asked.
    app.add_middleware(Doorkeeper, recognise=recognise, open_paths=OPEN, by_session=by_session)
    app.add_middleware(NoSniff)
    return app
