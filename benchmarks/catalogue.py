"""The subjects, each with its best settings."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from benchmarks.environments import python_of
from benchmarks.servers import Servers

Probe = Callable[[], bool]  # True if the store has no jobs left

SQLITE, POSTGRES, REDIS = "SQLite", "PostgreSQL", "Redis"


@dataclass(frozen=True)
class Subject:
    """A program to measure on one store."""

    name: str
    store: str
    module: str  # in benchmarks.subjects
    environment: str = ""  # the environment whose Python runs it; empty: this one
    package: str = ""
    jobs: int = 10_000  # of one throughput run; slow peers get fewer
    rounds: int = 3
    setting: str = ""  # shown in tables
    variables: Mapping[str, str] = field(default_factory=dict)
    left: str = ""  # SQL: it returns a row while jobs are left
    left_in_redis: tuple[str, ...] = ()
    latency: bool = True
    latency_here: bool = False  # the sender is the worker: another process cannot wake it
    enqueues: bool = True
    footprint: bool = True
    single: int = 1000  # of one enqueue run
    imports: str = ""  # the imports of a user's program; empty: the module

    @property
    def title(self) -> str:
        return f"{self.name}, {self.setting}" if self.setting else self.name

    @property
    def ours(self) -> bool:
        return self.name == "Ostinato"

    @property
    def installed(self) -> list[str]:
        """The command of the subject; raise NotInstalled without its environment."""
        return [str(python_of(self.environment)), "-m", f"benchmarks.subjects.{self.module}"]


@dataclass(frozen=True)
class Stage:
    """A subject with its own empty store."""

    subject: Subject
    variables: Mapping[str, str]
    probe: Probe

    @property
    def url(self) -> str:
        return next(value for name, value in self.variables.items() if name.endswith("_URL"))


BUSY = {"OSTINATO_CONCURRENCY": "500"}
OURS_LEFT = {SQLITE: "SELECT 1 FROM ostinato_live LIMIT 1", POSTGRES: "SELECT 1 FROM ostinato.live LIMIT 1"}


def ostinato(store: str, setting: str = "", rounds: int = 5, **variables: str) -> Subject:
    return Subject(
        "Ostinato", store, "ostinato", package="ostinato", rounds=rounds, setting=setting,
        variables=BUSY | variables, left=OURS_LEFT[store], enqueues=not setting, latency=setting in ("", "defaults"),
    )  # fmt: skip


def raw(store: str) -> Subject:
    return Subject("raw prototype", store, "raw", rounds=5, left="SELECT 1 FROM jobs WHERE state < 2 LIMIT 1",
                   latency=False, footprint=False)  # fmt: skip


DEFAULTS = {"OSTINATO_CONCURRENCY": "5"}

OURS = (ostinato(SQLITE), ostinato(POSTGRES))
OURS_BY_DEFAULT = tuple(
    replace(ostinato(store, "defaults", rounds=3, **DEFAULTS), jobs=3000) for store in (SQLITE, POSTGRES)
)
OURS_IN_THREADS = tuple(ostinato(store, "def tasks", KIND="thread") for store in (SQLITE, POSTGRES))
OURS_IN_PROCESSES = tuple(
    replace(ostinato(store, "two processes", KIND="process", OSTINATO_CONCURRENCY="2"), jobs=2000)
    for store in (SQLITE, POSTGRES)
)
OURS_AT_WORK = tuple(
    replace(ostinato(store, "1 ms of work each", KIND="work", **DEFAULTS), jobs=2000) for store in (SQLITE, POSTGRES)
)
OURS_BY_RQ = replace(ostinato(SQLITE, "RQ as the engine", rounds=3, OSTINATO_ENGINE="rq"), jobs=200)
LIMITS = (raw(SQLITE), raw(POSTGRES))

PGQUEUER = Subject("PgQueuer", POSTGRES, "pgqueuer", "pgqueuer", "pgqueuer", rounds=5,
                   left="SELECT 1 FROM pgqueuer LIMIT 1")  # fmt: skip
HUEY = Subject("Huey", SQLITE, "huey", "huey", "huey", rounds=5)
APSCHEDULER = Subject("APScheduler 3", SQLITE, "apscheduler", "apscheduler", "apscheduler", jobs=1000, rounds=5,
                      left="SELECT 1 FROM apscheduler_jobs LIMIT 1", latency_here=True, single=500,
                      imports="apscheduler.schedulers.background, apscheduler.jobstores.sqlalchemy")  # fmt: skip
APSCHEDULER_PG = replace(APSCHEDULER, store=POSTGRES, rounds=3)
PROCRASTINATE = Subject(
    "Procrastinate", POSTGRES, "procrastinate", "procrastinate", "procrastinate", jobs=2000,
    left="SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1",
)  # fmt: skip
DBOS = Subject("DBOS", POSTGRES, "dbos", "dbos", "dbos", jobs=500, single=300,
               left="SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING') LIMIT 1")  # fmt: skip
RQ = Subject("RQ", REDIS, "rq", "rq", "rq", jobs=1000, setting="SimpleWorker",
             left_in_redis=("LLEN rq:queue:default", "ZCARD rq:wip:default"))  # fmt: skip
RQ_FORK = replace(RQ, setting="fork per job", jobs=200, variables={"KIND": "fork"}, enqueues=False)
CELERY = Subject("Celery", REDIS, "celery", "celery", "celery", jobs=2000, setting="threads",
                 imports="celery.app.base", left_in_redis=("LLEN celery", "HLEN unacked"))  # fmt: skip
CELERY_FORK = replace(CELERY, setting="prefork", variables={"KIND": "prefork"}, enqueues=False)
DRAMATIQ = Subject("Dramatiq", REDIS, "dramatiq", "dramatiq", "dramatiq", jobs=3000,
                   left_in_redis=("LLEN dramatiq:default",))  # fmt: skip

FETCHERS = tuple(Subject("Ostinato", store, "fetching", package="ostinato") for store in (SQLITE, POSTGRES))
DLT = tuple(
    Subject("dlt", store, "dlt", "dlt", "dlt", setting=setting, variables={"KIND": setting})
    for store in (SQLITE, POSTGRES)
    for setting in ("merge", "append")
)  # dlt runs no jobs: compared only with FETCHERS

PEERS = (
    PGQUEUER,
    HUEY,
    APSCHEDULER,
    APSCHEDULER_PG,
    PROCRASTINATE,
    DBOS,
    RQ,
    RQ_FORK,
    CELERY,
    CELERY_FORK,
    DRAMATIQ,
)


def stage(subject: Subject, servers: Servers, folder: Path, name: str = "bench") -> Stage:
    """Give a subject an empty store, which replaces an older one of this name."""
    if subject.variables.get("OSTINATO_ENGINE") == "rq":
        servers.redis.ask(1, "FLUSHALL")
        given = {**subject.variables, "OSTINATO_REDIS_URL": servers.redis.url(1)}
        return _on_sqlite(replace(subject, variables=given), folder / name)
    if subject.store == REDIS:
        return _on_redis(subject, servers)
    if subject.store == SQLITE:
        return _on_sqlite(subject, folder / name)
    url = servers.fresh_database(name)
    return _staged(subject, url, _StoreProbe(lambda: psycopg.connect(url, autocommit=True), subject.left))


def _on_sqlite(subject: Subject, place: Path) -> Stage:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    file = place / "bench.db"
    return _staged(subject, f"sqlite:///{file}", _StoreProbe(lambda: sqlite3.connect(file), subject.left))


def _on_redis(subject: Subject, servers: Servers) -> Stage:
    servers.redis.ask(1, "FLUSHALL")
    probe = lambda: not any(servers.redis.ask(1, *subject.left_in_redis))  # noqa: E731
    return Stage(subject, {**subject.variables, "REDIS_URL": servers.redis.url(1)}, probe)


def _staged(subject: Subject, url: str, probe: Probe) -> Stage:
    name = "OSTINATO_DATABASE_URL" if subject.ours else "DATABASE_URL"
    return Stage(subject, {**subject.variables, name: url}, probe if subject.left else lambda: True)


class _StoreProbe:
    """Probe of the store of a running subject, on one open connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection | psycopg.Connection], left: str) -> None:
        self._connect, self._left = connect, left
        self._connection: sqlite3.Connection | psycopg.Connection | None = None

    def __call__(self) -> bool:
        if self._connection is None:
            self._connection = self._connect()
        try:
            return self._connection.execute(self._left).fetchone() is None
        except sqlite3.OperationalError:  # temporarily locked
            return False
