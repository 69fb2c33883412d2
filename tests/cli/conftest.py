"""Commands inside the test's own process, in a folder of their own, and places where they do something."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import psycopg
import pytest

from ostinato.program import run
from tests.cli.places import Place


class Answer(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def ostinato(capsys, tmp_path, monkeypatch) -> Command:
    """`ostinato("preview", "30m")`, from an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))

    def command(*arguments: str) -> Answer:
        capsys.readouterr()
        code = run(list(arguments))
        return Answer(code, *capsys.readouterr())

    return command


PLACES = ("direct-sqlite", "server-sqlite", "direct-postgres", "server-postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test at a place is one at each, or at those that its module names."""
    if "place" in metafunc.fixturenames:
        places = [
            pytest.param(name, marks=[pytest.mark.postgres] if name.endswith("postgres") else [])
            for name in getattr(metafunc.module, "PLACES", PLACES)
        ]
        metafunc.parametrize("place", places, indirect=True, scope="module")


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A real server with a worker; commands ask it, or the database beside it. Tests of a module share it."""
    mode, _, kind = request.param.partition("-")
    folder = tmp_path_factory.mktemp(request.param)
    environment = {"OSTINATO_DATABASE_URL": f"sqlite:///{folder}/ostinato.db", "OSTINATO_SCHEMA": "ostinato"}
    if kind == "postgres":
        schema = "cli_" + request.module.__name__.rpartition(".")[2]
        url = request.getfixturevalue("postgres_database")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        environment = {"OSTINATO_DATABASE_URL": url, "OSTINATO_SCHEMA": schema}
    place = Place(folder, mode, environment | getattr(request.module, "ENVIRONMENT", {}))
    yield place
    place.close()


@pytest.fixture
def at(place: Place, ostinato: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`at("job", "list")`: a command at this place."""
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: ostinato(*arguments, *place.flags)
