"""What every test may ask for: a fresh database of either kind, with the schema and without rows.

`database_url` runs a test on both; `sqlite_url` and `postgres_url` on one; `empty_…` has not even the schema.
PostgreSQL starts when the first test asks for it: one server for the whole run, one database per worker of
pytest-xdist.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from tests.playground import Playground
from tests.schemas import PostgresSchema, SqliteSchema
from tests.servers import PostgresServer, new_folder, shared_server
from tests.valkey import Valkey

settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

TESTS = Path(__file__).parent
DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
FOLDER = pytest.StashKey[Path]()
OWNED = pytest.StashKey[PostgresServer]()


def pytest_configure(config: pytest.Config) -> None:
    for name in [name for name in os.environ if name.startswith("OSTINATO_")]:
        del os.environ[name]  # the settings of whoever runs the tests are not the tests' business
    # The tests start hundreds of processes: without bytecode each would compile everything that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if (given := getattr(config, "workerinput", None)) is not None:
        config.stash[FOLDER] = Path(given["postgres_folder"])
        return
    server = PostgresServer(new_folder())
    server.own()
    config.stash[OWNED] = server
    config.stash[FOLDER] = server.folder


def pytest_unconfigure(config: pytest.Config) -> None:
    if (server := config.stash.get(OWNED, None)) is not None:
        server.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["postgres_folder"] = str(node.config.stash[FOLDER])


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"postgres_schema", "private_postgres"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)
        if item.path.is_relative_to(TESTS / "system"):
            item.add_marker(pytest.mark.system)
        if not item.get_closest_marker("xdist_group") and (shared := _shared(item)):
            item.add_marker(pytest.mark.xdist_group(shared))


def _shared(item: pytest.Item) -> str:
    """Who uses the same server of a module runs in the same worker: else each worker starts one."""
    definitions = getattr(item, "_fixtureinfo", None)
    scopes = {name: found[-1].scope for name, found in (definitions.name2fixturedefs if definitions else {}).items()}
    if "module" not in scopes.values():
        return ""
    chosen = item.callspec.params.items() if hasattr(item, "callspec") else ()
    return " ".join([item.path.stem, *(f"{value}" for name, value in chosen if scopes.get(name) == "module")])


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """An app that runs in a test configures logging for its process, which is the tests' too."""
    loggers = [logging.getLogger(), logging.getLogger("ostinato"), logging.getLogger("ostinato.task")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        for handler in [each for each in logger.handlers if each not in handlers]:
            logger.removeHandler(handler)


@pytest.fixture(scope="session")
def postgres_database(request: pytest.FixtureRequest) -> str:
    """The URL of this worker's own database."""
    server = shared_server(request.config.stash[FOLDER])
    name = "ostinato_" + os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture(scope="session")
def postgres_schema(postgres_database: str) -> Iterator[PostgresSchema]:
    schema = PostgresSchema(postgres_database)
    yield schema
    schema.close()


@pytest.fixture(scope="session")
def sqlite_schema(tmp_path_factory: pytest.TempPathFactory) -> SqliteSchema:
    return SqliteSchema(tmp_path_factory.mktemp("schema"))


@pytest.fixture
def postgres_url(postgres_schema: PostgresSchema) -> str:
    """A PostgreSQL database with the schema and without rows."""
    postgres_schema.without_rows()
    return postgres_schema.url


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_schema: SqliteSchema) -> str:
    """A SQLite database with the schema and without rows."""
    sqlite_schema.copy_to(tmp_path / "ostinato.db")
    return f"sqlite:///{tmp_path}/ostinato.db"


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The same test on both databases."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def empty_postgres_url(postgres_schema: PostgresSchema) -> str:
    """A PostgreSQL database that has no schema yet."""
    postgres_schema.remove()
    return postgres_schema.url


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """A SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/ostinato.db"


@pytest.fixture(params=DATABASES)
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """The same test on both databases, before anybody migrated them."""
    return request.getfixturevalue(f"empty_{request.param}_url")


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, durable, to be stopped and restarted under load."""
    server = PostgresServer.private()
    yield server
    server.close()


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """One Redis for the whole run of a worker; `redis_url` empties it."""
    server = Valkey()
    yield server
    server.close()


@pytest.fixture
def redis_url(valkey: Valkey) -> str:
    """An empty Redis."""
    with valkey.client() as client:
        client.flushall()
    return valkey.url


@pytest.fixture
def private_valkey() -> Iterator[Valkey]:
    """A Redis of the test's own, to be killed."""
    server = Valkey()
    yield server
    server.close()


@pytest.fixture
def playground() -> Iterator[Playground]:
    """A server that misbehaves as it is asked to."""
    with Playground() as playground:
        yield playground
