"""PostgreSQL: its settings, its deadlines, and unavailable or frozen servers."""

import os
import signal
import threading
import time
from uuid import UUID, uuid4

import psycopg
import pytest

from ostinato.core.errors import RightsMissing, RowRefused, StoreError, StoreUnavailable
from ostinato.store import migrate, postgres
from ostinato.store.database import open_database
from tests.store.database.conftest import USUAL_DEADLINE, add, opened, with_table, xs
from tests.waiting import PATIENCE


def test_the_settings_of_a_session(pg):
    def shown(name):
        with pg.read() as tx:
            return tx.row(pg.dialect.statement(f"SHOW {name}"))[0]

    assert shown("TimeZone") == "UTC"
    assert shown("statement_timeout") == "24s"
    assert shown("lock_timeout") == "15s"
    assert shown("idle_in_transaction_session_timeout") == "1min"
    assert shown("application_name") == "ostinato"
    assert shown("transaction_isolation") == "repeatable read"
    with pg.write(120) as tx:
        assert tx.row(pg.dialect.statement("SHOW statement_timeout")) == ("96s",)
        assert tx.row(pg.dialect.statement("SHOW transaction_isolation")) == ("read committed",)
    assert shown("statement_timeout") == "24s"


def test_a_batch_has_one_plan_whatever_is_in_it(pg):
    with pg.write() as tx:
        for rows in ([], [(uuid4(), 1)], [(uuid4(), 2**40)], [(None, None)], [(uuid4(), None)]) * 3:
            tx.run("move", rows)
        prepared = tx.rows(pg.dialect.statement("SELECT parameter_types::text FROM pg_prepared_statements"))
    assert ("{uuid[],bigint[]}",) in prepared
    assert len([types for (types,) in prepared if types.startswith("{uuid[]")]) == 1


def test_an_old_server_is_refused(monkeypatch, empty_postgres_url):
    monkeypatch.setattr(postgres, "OLDEST", 990000)
    with pytest.raises(StoreError, match="older than PostgreSQL 14"), opened(empty_postgres_url).read():
        pass


def test_a_lock_that_is_not_given_is_unavailable_and_costs_no_connection(empty_postgres_url):
    pg = with_table(empty_postgres_url, deadline=1.0)
    add(pg, 1)
    with pg.write() as one:
        one.rows("lock", x=1)
        with pytest.raises(StoreUnavailable, match="lock timeout"), pg.write() as two:
            two.rows("lock", x=1)
    assert xs(pg) == [1]
    pg.close()


@pytest.mark.parametrize(
    "code",
    ["40P01", "40001", "55P03", "57014", "57P01", "57P03", "53300", "53100", "08006", "25P03", "25006"],
)
def test_what_may_work_later_is_unavailable(code):
    pg = open_database("postgresql://me@127.0.0.1:1/x")
    assert isinstance(pg.translated(psycopg.errors.lookup(code)("so")), StoreUnavailable)


@pytest.mark.parametrize("code", ["22001", "22P02", "22003", "23514", "23502", "23505", "54000", "54011"])
def test_what_blames_the_values_of_a_row_is_a_refused_row(code):
    pg = open_database("postgresql://me@127.0.0.1:1/x")
    assert isinstance(pg.translated(psycopg.errors.lookup(code)("so")), RowRefused)


def test_a_value_that_cannot_be_sent_is_a_refused_row():
    pg = open_database("postgresql://me@127.0.0.1:1/x")
    assert isinstance(pg.translated(psycopg.DataError("a text cannot contain NUL")), RowRefused)


@pytest.mark.parametrize("code", ["25006", "42P01", "42703", "XX000", "58030", "42501"])
def test_what_is_no_fault_of_a_row_blames_no_row(code):
    pg = open_database("postgresql://me@127.0.0.1:1/x")
    assert not isinstance(pg.translated(psycopg.errors.lookup(code)("so")), RowRefused)


@pytest.mark.parametrize("may", ["see the schema", "do nothing"])
def test_a_role_without_rights_is_told_so(postgres_url, may):
    """And not that the tables belong to someone else."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS ostinato_poor")
        connection.execute("CREATE ROLE ostinato_poor LOGIN")
        if may == "see the schema":
            connection.execute("GRANT USAGE ON SCHEMA ostinato TO ostinato_poor")
    try:
        pg = open_database(make_conninfo_url(postgres_url, "ostinato_poor"))
        with pytest.raises(RightsMissing, match="lacks a right"):
            migrate.schema_version(pg)
        pg.close()
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY ostinato_poor; DROP ROLE ostinato_poor")


def make_conninfo_url(url: str, user: str) -> str:
    """The same database, for another role."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}@{rest.rpartition('@')[2]}"


def test_when_all_connections_are_in_use_the_wait_has_a_deadline(empty_postgres_url):
    pg = opened(empty_postgres_url, deadline=0.2, max_connections=1)
    with pytest.raises(StoreUnavailable, match="All 1 connections"), pg.read(), pg.read():
        pass
    pg.close()


def test_a_server_that_is_not_there_is_unavailable_at_once():
    before = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"No connection to postgresql://me@127.0.0.1:1/x") as caught:
        open_database("postgresql://me:secret@127.0.0.1:1/x", deadline=PATIENCE).now()
    assert time.monotonic() - before < PATIENCE
    assert "secret" not in str(caught.value)


@pytest.mark.system
def test_a_restart_of_the_server_fails_what_is_under_way_and_nothing_else(private_postgres):
    pg = with_table(private_postgres.url(), deadline=PATIENCE)
    with pg.read(), pg.read(), pg.read():
        pass  # three idle connections
    before = time.monotonic()
    with pytest.raises(StoreUnavailable), pg.write() as tx:  # noqa: PT012
        tx.run("add", id=uuid4(), x=1, note=None)
        private_postgres.restart()
        tx.run("add", id=uuid4(), x=2, note=None)
    assert time.monotonic() - before < PATIENCE
    assert xs(pg) == []
    private_postgres.restart()
    add(pg, 3)  # idle connections are replaced silently
    assert xs(pg) == [3]
    pg.close()


@pytest.mark.system
def test_a_frozen_server_is_unavailable_within_the_deadline(private_postgres):
    pg = with_table(private_postgres.url(), deadline=1.0)
    pids = frozen(pg, private_postgres)
    try:
        for attempt in (
            lambda: add(pg, 1),
            pg.now,
            lambda: add(pg, 2),
        ):  # on idle connections, then on a new one
            before = time.monotonic()
            with pytest.raises(StoreUnavailable):
                attempt()
            assert time.monotonic() - before < USUAL_DEADLINE
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    add(pg, 3)
    assert 3 in xs(pg)
    pg.close()


def frozen(pg, server):
    """Stop every process of a server; all are our own."""
    with pg.read() as tx:
        backends = [row[0] for row in tx.rows(pg.dialect.statement("SELECT pid FROM pg_stat_activity"))]
    main = int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    pids = [main, *backends]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def test_a_transaction_that_takes_too_long_on_our_side_loses_its_connection(empty_postgres_url):
    pg = with_table(empty_postgres_url, deadline=0.3)
    with pytest.raises(StoreUnavailable), pg.write() as tx:  # noqa: PT012
        threading.Event().wait(1.0)
        tx.run("add", id=uuid4(), x=1, note=None)
    add(pg, 2)
    assert xs(pg) == [2]
    pg.close()


def test_a_migration_has_no_deadline(empty_postgres_url):
    pg = with_table(empty_postgres_url, deadline=0.3)
    with pg.write(float("inf")) as tx:
        tx.rows(pg.dialect.statement("SELECT pg_sleep(0.6)"))
        tx.run("add", id=UUID(int=1), x=1, note=None)
    assert xs(pg) == [1]
    pg.close()
