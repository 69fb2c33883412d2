"""Faults of a database that pass: read-only, as in a failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from ostinato.store.sqlite import SqliteDatabase


@contextmanager
def read_only(database: Any, url: str) -> Iterator[None]:
    """Every write is refused meanwhile: on PostgreSQL for each connection, on SQLite for those of one store."""
    if url.startswith("sqlite"):
        with _writes_refused(database):
            yield
    else:
        with standby(url):
            yield


@contextmanager
def standby(url: str) -> Iterator[None]:
    """A server that lets nobody write, and has ended the connections of our processes, as a failover does."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        end_connections(connection)
        try:
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
            end_connections(connection)


def end_connections(connection: psycopg.Connection) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'ostinato' AND pid <> pg_backend_pid()"
    )


@contextmanager
def _writes_refused(database: SqliteDatabase) -> Iterator[None]:
    _say(database, "PRAGMA query_only = ON")
    try:
        yield
    finally:
        _say(database, "PRAGMA query_only = OFF")


def _say(database: SqliteDatabase, sql: str) -> None:
    """On the connection of its writers, outside of any transaction: such a one would be refused."""
    with database._turn.held(10):
        database.execute(database._writer, sql)
