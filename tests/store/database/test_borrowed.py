"""Connections and sessions of the caller, borrowed for their transaction."""

import sqlite3
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session as OrmSession

from ostinato.core.errors import Invalid
from ostinato.store.database import Duplicate
from tests.store.database.conftest import NOON, xs


def theirs_of(db, url, how):
    """Return a caller's connection to the same database: (the object handed over, commit, roll back, close)."""
    if how == "driver":
        raw = sqlite3.connect(db.name) if url.startswith("sqlite") else psycopg.connect(url)
        return raw, raw.commit, raw.rollback, raw.close
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    theirs = engine.connect() if how == "connection" else OrmSession(engine)
    return theirs, theirs.commit, theirs.rollback, lambda: (theirs.close(), engine.dispose())


@pytest.fixture(params=["driver", "connection", "session"])
def theirs(db, empty_database_url, request):
    made = theirs_of(db, empty_database_url, request.param)
    yield made
    made[3]()


def test_a_borrowed_transaction_is_visible_with_its_commit(db, theirs):
    connection, commit, _, _ = theirs
    with db.borrow(connection) as tx:
        tx.run("add_many", [(uuid4(), 1, NOON, None, None, None)])
        tx.run("add", id=uuid4(), x=2, note=None)
        tx.notify()
    assert xs(db) == []
    commit()
    assert xs(db) == [1, 2]


def test_a_borrowed_transaction_is_gone_with_its_rollback(db, theirs):
    connection, commit, rollback, _ = theirs
    with db.borrow(connection) as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
    rollback()
    with db.borrow(connection) as tx:
        tx.run("add", id=uuid4(), x=2, note=None)
    commit()
    assert xs(db) == [2]


def test_reads_can_see_the_callers_open_transaction(db, theirs):
    connection, _, rollback, _ = theirs
    with db.borrow(connection) as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
    with db.reading_in(connection):
        assert xs(db) == [1]
    assert xs(db) == [], "and afterwards only what is committed"
    rollback()


def test_what_fails_in_a_borrowed_transaction_undoes_itself_only(db, theirs):
    connection, commit, _, _ = theirs
    with db.borrow(connection) as tx:
        tx.run("add", id=uuid4(), x=1, note="a")
    with pytest.raises(Duplicate), db.borrow(connection) as tx:  # noqa: PT012
        tx.run("add", id=uuid4(), x=2, note=None)
        tx.run("add", id=uuid4(), x=3, note="a")
    commit()
    assert xs(db) == [1]


def test_a_borrowed_row_factory_changes_nothing(lite, pg, empty_postgres_url):
    one, two = (
        sqlite3.connect(lite.name),
        psycopg.connect(empty_postgres_url, row_factory=psycopg.rows.dict_row),
    )
    one.row_factory = sqlite3.Row
    for db, connection in ((lite, one), (pg, two)):
        with db.borrow(connection) as tx:
            tx.run("add", id=uuid4(), x=1, note=None)
            assert type(tx.row("all")) is tuple
        connection.close()


def test_a_connection_to_another_database_is_refused(lite, pg, empty_postgres_url, tmp_path):
    elsewhere = sqlite3.connect(tmp_path / "other.db")
    memory = sqlite3.connect(":memory:")
    other = psycopg.connect(empty_postgres_url, dbname="postgres")
    for db, connection in (
        (lite, elsewhere),
        (lite, memory),
        (lite, other),
        (pg, other),
        (pg, memory),
        (pg, "x"),
    ):
        with pytest.raises(Invalid, match="connection"), db.borrow(connection):
            pass
    for connection in (elsewhere, memory, other):
        connection.close()


def test_a_connection_without_a_transaction_is_refused(lite, pg, empty_postgres_url):
    one, two = (
        sqlite3.connect(lite.name, isolation_level=None),
        psycopg.connect(empty_postgres_url, autocommit=True),
    )
    for db, connection in ((lite, one), (pg, two)):
        with pytest.raises(Invalid, match="no open transaction"), db.borrow(connection):
            pass
    one.execute("BEGIN")
    with lite.borrow(one) as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
    assert xs(lite) == []
    one.execute("COMMIT")
    with two.transaction(), pg.borrow(two) as tx:
        tx.run("add", id=uuid4(), x=1, note=None)
    assert xs(lite) == xs(pg) == [1]
    one.close()
    two.close()


def test_an_engine_is_refused(lite):
    engine = sqlalchemy.create_engine(f"sqlite:///{lite.name}")
    with pytest.raises(Invalid, match="not an engine"), lite.borrow(engine):
        pass
