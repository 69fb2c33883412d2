"""The databases that the other tests stand on."""

import sqlite3
from pathlib import Path

import psycopg
import pytest

LEFT_OPEN = []


def test_a_test_gets_an_empty_database(database_url):
    if database_url.startswith("sqlite:///"):
        path = database_url.removeprefix("sqlite:///")
        assert not Path(path).exists()
        sqlite3.connect(path).close()
    else:
        with psycopg.connect(database_url) as connection:
            connection.execute("CREATE SCHEMA ostinato")


@pytest.mark.xdist_group("left open")
@pytest.mark.parametrize("time", ["first", "second"])
def test_what_a_test_leaves_open_does_not_block_the_next(postgres_url, time):
    connection = psycopg.connect(postgres_url)
    LEFT_OPEN.append(connection)
    connection.execute("CREATE SCHEMA ostinato")
    connection.commit()
    connection.execute("CREATE TABLE ostinato.held (id int)")
