"""PostgreSQL's dead rows: workers clear them beyond a limit and block no one.

The server of the tests runs without autovacuum.
"""

from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest

from ostinato.core.errors import StoreError
from ostinato.store import upkeep
from ostinato.store.upkeep import RETRY_AFTER, Vacuum

DEAD_AND_VACUUMS = """SELECT n_dead_tup, vacuum_count FROM pg_stat_user_tables
WHERE schemaname = 'ostinato' AND relname = 'jobs'"""  # other tests leave schemas of their own behind


@pytest.fixture(autouse=True)
def soon_worth_it(monkeypatch):
    monkeypatch.setattr(upkeep, "MOST_DEAD", 100)


@pytest.fixture
def by_hand(pg, empty_postgres_url):
    """A connection that publishes its statistics after each statement."""
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        yield connection


def leave_dead(pg, by_hand, count):
    with pg.write() as tx:
        tx.run("add_many", [(UUID(int=x), x, None, None, 0.0, "{}") for x in range(count)])
    by_hand.execute("DELETE FROM ostinato.jobs")
    by_hand.execute("SELECT pg_stat_force_next_flush()")


@contextmanager
def a_long_look(url):
    """A transaction that still sees the deleted rows."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield


def test_dead_rows_are_cleared_beside_those_who_write(pg, by_hand):
    leave_dead(pg, by_hand, 500)
    assert pg.ask(DEAD_AND_VACUUMS) == [(500, 0)]
    with pg.write() as tx:  # holds its locks meanwhile
        tx.run("add", id=UUID(int=1), x=1, note=None)
        pg.upkeep()
        tx.run("add", id=UUID(int=2), x=2, note=None)
    assert pg.ask(DEAD_AND_VACUUMS) == [(0, 1)]


def test_a_few_dead_rows_are_left_to_autovacuum(pg, by_hand):
    leave_dead(pg, by_hand, 50)
    pg.upkeep()
    assert pg.ask(DEAD_AND_VACUUMS) == [(50, 0)]


def test_what_somebody_still_sees_is_not_cleared_in_vain_again_and_again(pg, by_hand, empty_postgres_url):
    now = 0.0
    keeper = Vacuum(pg, lambda: now)
    with a_long_look(empty_postgres_url):
        leave_dead(pg, by_hand, 500)
        for _ in range(3):
            keeper.clear()
        assert pg.ask(DEAD_AND_VACUUMS) == [(500, 1)]
    keeper.clear()
    assert pg.ask(DEAD_AND_VACUUMS) == [(500, 1)]
    now += RETRY_AFTER
    keeper.clear()
    assert pg.ask(DEAD_AND_VACUUMS) == [(0, 2)]


def test_whoever_just_works_on_the_table_is_not_waited_for(pg, by_hand):
    leave_dead(pg, by_hand, 500)
    with by_hand.transaction():
        by_hand.execute("LOCK TABLE ostinato.jobs IN SHARE UPDATE EXCLUSIVE MODE")  # as autovacuum does
        pg.upkeep()
    assert pg.ask(DEAD_AND_VACUUMS) == [(500, 0)]


def test_a_server_that_refuses_is_told_of_and_left_alone(pg, by_hand, monkeypatch, caplog):
    leave_dead(pg, by_hand, 500)

    def refused(sql, limit):
        raise StoreError(f"{sql}: not here.")

    monkeypatch.setattr(pg, "execute_long", refused)
    for _ in range(2):
        pg.upkeep()
    assert caplog.text.count("could not be cleared of dead rows") == 1
