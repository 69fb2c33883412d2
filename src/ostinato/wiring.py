"""Construction of a process's parts from its settings: database, store, clock, engine and HTTP application."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from ostinato.chance import RandomChance
from ostinato.clock import Clock, MeasuredClock, uptime
from ostinato.config import EngineKind, Settings
from ostinato.config.extras import need, need_server, our_version
from ostinato.core.model import Chance
from ostinato.feature import features_of
from ostinato.store import migrate
from ostinato.store.database import open_database
from ostinato.store.dialect import DatabaseKind
from ostinato.store.store import Store
from ostinato.task import Registry
from ostinato.telemetry.reports import Counts, Hooks, Telemetry

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ostinato.access.credentials import Recognise
    from ostinato.engine.engine import DueMessenger, Engine
    from ostinato.service import Service
    from ostinato.telemetry.process_metrics import EngineView


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a process: settings, store, clock, registry and the rest."""

    settings: Settings
    store: Store
    clock: Clock
    chance: Chance
    messenger: "DueMessenger | None" = None  # only if workers of another system run what is due


def open_parts(settings: Settings, *, upgrade: bool = False) -> Parts:
    """Open the database of the settings and check its schema."""
    database = open_database(
        settings.database_url,
        schema=settings.schema,
        max_connections=settings.concurrency + 10,
        features=features_of(settings.features),
    )
    chance = RandomChance()
    try:
        store = Store(database, chance, settings)
        if upgrade:
            migrate.upgrade(database)
        store.require_current()
        clock = clock_of(store)
        return Parts(settings, store, clock, chance, _messenger(settings, store, clock))
    except BaseException:
        database.close()
        raise


def _messenger(settings: Settings, store: Store, clock: Clock) -> "DueMessenger | None":
    """Return the messenger to the workers of another system, if the settings name its engine."""
    if settings.engine is EngineKind.LOCAL:
        return None
    found: DueMessenger = store.database.features.engine(settings.engine).messenger(store, clock, settings)
    return found


def clock_of(store: Store) -> Clock:
    """Return the clock of a database: the server's for PostgreSQL, the host's for SQLite."""
    if store.database.dialect.kind is DatabaseKind.POSTGRES:
        return MeasuredClock(store.database.now)
    host = partial(datetime.now, UTC)
    return MeasuredClock(host, own_host=True, zero=store.clock_record.zero(uptime()))


def build_engine(parts: Parts, registry: Registry, hooks: Hooks, app: str) -> "Engine":
    """Build the dispatcher, worker and sweeper of this process."""
    from ostinato.engine.engine import Engine  # most commands need no engine

    telemetry = Telemetry(parts.settings, hooks)
    observe(parts.settings, telemetry, registry)
    return Engine(
        parts.store,
        registry,
        parts.clock,
        parts.chance,
        telemetry,
        parts.settings,
        app=app,
        version=our_version(),
        messenger=parts.messenger,
    )


def observe(settings: Settings, telemetry: Telemetry, registry: Registry) -> None:
    """Add OpenTelemetry and Sentry to a worker, where its settings ask for them."""
    if settings.sentry:
        need("sentry", "sentry_sdk", "The setting sentry")
        from ostinato import sentry

        sentry.observe(telemetry, registry)
    if settings.otel:
        need("otel", "opentelemetry.trace", "The setting otel")
        from ostinato import otel

        otel.observe(telemetry, registry)


def trace_enqueues(settings: Settings, service: "Service") -> None:
    """Trace the enqueues of a service, where its settings ask for that."""
    if settings.otel:
        need("otel", "opentelemetry.trace", "The setting otel")
        from ostinato.otel import Enqueues

        service.jobs.tracer = Enqueues()


def build_api(
    parts: Parts,
    service: "Service",
    engine: "EngineView",
    *,
    insecure: bool = False,
    recognise: "Recognise | None" = None,
) -> "FastAPI":
    """Build the HTTP application of a service: the API, and the dashboard in front of it. `recognise` replaces the
    check of credentials that the settings ask for."""
    need_server("The HTTP server")
    from ostinato.access.credentials import recogniser
    from ostinato.access.refusals import RefusalLog
    from ostinato.access.sessions import Visitors, session_recogniser
    from ostinato.dashboard.app import DashboardFirst, Site
    from ostinato.rest import monitoring  # half a second of imports, only for servers
    from ostinato.rest.app import create_app
    from ostinato.rest.exporter import PrometheusText

    recognise, refused = recognise or recogniser(parts.settings, service, insecure=insecure), Counts()
    api = create_app(
        service,
        parts.settings,
        recognise=recognise,
        by_session=session_recogniser(recognise),
        routers=[
            monitoring.health_router(lambda: [*service.unready(), *engine.troubles()]),
            monitoring.metrics_router(PrometheusText(service, engine.measure(), our_version(), refused)),
        ],
        version=our_version(),
    )
    site = Site(service, parts.settings, Visitors(recognise, service), our_version(), api.state.workload)
    api.add_middleware(DashboardFirst, site=site, others=api.routes)
    api.add_middleware(RefusalLog, service=service, counts=refused)
    if parts.settings.otel:
        from ostinato.otel import IncomingTrace

        api.add_middleware(IncomingTrace)
    return api
