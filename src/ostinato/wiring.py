"""The only place that builds things."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ostinato.clock import Clock, MeasuredClock, SystemClock
from ostinato.config import Settings
from ostinato.core.model import Luck
from ostinato.luck import RandomLuck
from ostinato.store import migrate
from ostinato.store.database import Database, open_database
from ostinato.store.dialect import Kind
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.telemetry import Hooks, Telemetry

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ostinato.engine.engine import Engine
    from ostinato.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Parts:
    """What everything else is made from."""

    settings: Settings
    store: Store
    clock: Clock
    luck: Luck


def open_parts(settings: Settings, *, upgrade: bool = False) -> Parts:
    """Open the database of the settings and make sure that its schema fits."""
    database = open_database(
        settings.database_url, schema=settings.schema, max_connections=settings.concurrency + 10
    )
    luck = RandomLuck()
    try:
        store = Store(database, luck)
        if upgrade:
            migrate.upgrade(database)
        store.require_current()
        return Parts(settings, store, clock_of(database), luck)
    except BaseException:
        database.close()
        raise


def clock_of(database: Database) -> Clock:
    """One clock for all: the server's for PostgreSQL, the host's for SQLite."""
    return MeasuredClock(database.now) if database.dialect.kind is Kind.POSTGRES else SystemClock()


def build_engine(parts: Parts, registry: Registry, hooks: Hooks, app: str) -> "Engine":
    """Dispatcher, worker and sweeper of this process."""
    from ostinato.engine.engine import Engine  # a verb of the command line needs none

    telemetry = Telemetry(parts.settings, hooks)
    return Engine(
        parts.store,
        registry,
        parts.clock,
        parts.luck,
        telemetry,
        parts.settings,
        app=app,
        version=our_version(),
    )


def build_api(parts: Parts, desk: "Scheduler", engine: "Engine", *, insecure: bool = False) -> "FastAPI":
    """HTTP around a front desk, beside an engine: the API, and the dashboard before it."""
    from ostinato.access.credentials import recogniser
    from ostinato.access.sessions import Visitors, session_recogniser
    from ostinato.api import health, metrics  # half a second of imports that only a server needs
    from ostinato.api.app import create_app
    from ostinato.web.app import Pages, Site

    recognise = recogniser(parts.settings, desk, insecure=insecure)
    api = create_app(
        desk,
        parts.settings,
        recognise=recognise,
        by_session=session_recogniser(recognise, desk),
        routers=[
            health.router(lambda: [*desk.unready(), *engine.troubles()]),
            metrics.router(desk, engine.measure(), our_version()),
        ],
        version=our_version(),
    )
    site = Site(desk, parts.settings, Visitors(recognise, desk), our_version())
    api.add_middleware(Pages, site=site, others=api.routes)
    return api


def our_version() -> str:
    try:
        return version("ostinato")
    except PackageNotFoundError:
        return "unknown"
