"""Faults of a database that pass: read-only as in a failover, locked, full, restarted."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
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


# -- of a server


@contextmanager
def locked_table(url: str, table: str = "ostinato.jobs") -> Iterator[None]:
    """Nobody else may read or write a table."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def move_tables(url: str, folder: Path) -> None:
    """Keep our tables and their indexes in this folder: on a disk that may fill up."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        connection.execute("ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE small")
        connection.execute("ALTER INDEX ALL IN TABLESPACE pg_default SET TABLESPACE small")


# -- of a file


@contextmanager
def locked_file(file: Path) -> Iterator[None]:
    """Another connection writes to a SQLite file, for long."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=60)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


KILLED = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("PRAGMA cache_size = 10")
connection.execute("BEGIN IMMEDIATE")
connection.executemany("INSERT INTO ostinato_meta VALUES (?, ?)", [(f"junk {n}", "x" * 2000) for n in range(300)])
print("begun", flush=True)
time.sleep(600)  # in another process
"""


@contextmanager
def killed_writer(file: Path) -> Iterator[None]:
    """Another process writes to a SQLite file, and is killed in the middle of its transaction."""
    with subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield
        process.kill()


# -- of a disk


class SmallDisk:
    """A file system that is full when a test says so. Only root can mount one."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        options = f"size={megabytes}m,mode=777"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)

    @contextmanager
    def full(self) -> Iterator[None]:
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
        try:
            yield
        finally:
            filler.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
