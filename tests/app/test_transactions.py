"""`using(connection=…)`: a job in the caller's own transaction, rolled back with it and visible with it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from ostinato import Ostinato

KINDS = ["driver", "SQLAlchemy connection", "SQLAlchemy session"]


@contextmanager
def open_connection(url: str, kind: str) -> Iterator[object]:
    """A connection to the database with an open transaction."""
    if kind == "driver" and url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.close()
        return
    if kind == "driver":
        with psycopg.connect(url) as theirs:
            yield theirs
        return
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() if kind == "SQLAlchemy connection" else Session(engine) as theirs:
        yield theirs
    engine.dispose()


@pytest.fixture
def app(new_app) -> Ostinato:
    app = new_app()

    @app.task
    def welcome(to: str) -> None: ...

    return app


def jobs(app: Ostinato) -> list[str]:
    return [view.args["to"] for view in app.jobs.list()]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_there_when_the_caller_commits(app, database_url, kind):
    welcome = app.registry.get("welcome")
    with open_connection(database_url, kind) as connection:
        handle = welcome.using(connection=connection, key="welcome-7", priority=1).enqueue(to="a")
        assert jobs(app) == [], "not before"
        connection.commit()
    assert jobs(app) == ["a"]
    assert app.jobs.get("welcome-7").id == handle.id


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_gone_when_the_caller_rolls_back(app, database_url, kind):
    welcome = app.registry.get("welcome")
    with open_connection(database_url, kind) as connection:
        welcome.using(connection=connection, key="welcome-7").enqueue(to="a")
        connection.rollback()
    assert jobs(app) == []
    assert welcome.using(key="welcome-7").enqueue(to="b").job.args == {"to": "b"}, "and its key is free"


@pytest.mark.parametrize("kind", KINDS)
def test_many_go_with_the_caller_too(app, database_url, kind):
    welcome = app.registry.get("welcome")
    with open_connection(database_url, kind) as connection:
        app.enqueue([welcome.bind(to=each) for each in "abc"], connection=connection)
        connection.commit()
    assert sorted(jobs(app)) == ["a", "b", "c"]


def test_what_is_no_connection_is_refused(app):
    with pytest.raises(ValueError):
        app.registry.get("welcome").using(connection="mine").enqueue(to="a")
    assert jobs(app) == []


def test_a_sqlite_connection_without_a_transaction_is_refused(sqlite_url):
    app = Ostinato("shop", database_url=sqlite_url)

    @app.task
    def welcome(to: str) -> None: ...

    welcome.enqueue(to="first")
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    with pytest.raises(ValueError, match="BEGIN first"):
        welcome.using(connection=connection).enqueue(to="a")
    connection.close()
    app.close()


def test_a_connection_to_another_database_is_refused(sqlite_url, tmp_path):
    app = Ostinato("shop", database_url=sqlite_url)

    @app.task
    def welcome(to: str) -> None: ...

    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("BEGIN")
    with pytest.raises(ValueError, match=r"That connection is on .*other\.db"):
        welcome.using(connection=other).enqueue(to="a")
    other.close()
    app.close()
