"""Databases with the schema in them and no rows, quickly: the migrations run once, not before every test.

SQLite: a copy of a file. PostgreSQL: the schema of the test before, emptied. If that test changed more than rows
(a table, an index, a right, what the planner knows), or nobody can tell, it is thrown away and made anew.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from ostinato.feature import our_features
from ostinato.store import migrate
from ostinato.store.database import open_database
from tests.waiting import PATIENCE

SCHEMA = "ostinato"
META = Identifier(SCHEMA, "meta")
VERSIONS = SQL(", ").join(
    SQL("({}, {})").format(f"{migrate.VERSION}{owner}", str(version))
    for owner, version in migrate.latest_versions(our_features()).items()
)
SMALL = 128 * 1024  # bytes: in a larger table the rows that were deleted begin to be in the way

# The transaction that wrote a row of a catalogue stands in its xmin, whatever it changed.
DEFINITIONS = SQL(
    """
    WITH ours AS (SELECT oid, xmin FROM pg_namespace WHERE nspname = %(schema)s),
         tables AS (SELECT oid, xmin FROM pg_class WHERE relnamespace IN (SELECT oid FROM ours)),
         rows AS (
              SELECT 'schema', oid, 0, xmin FROM ours
    UNION ALL SELECT 'table', oid, 0, xmin FROM tables
    UNION ALL SELECT 'column', attrelid, attnum, xmin FROM pg_attribute WHERE attrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'trigger', oid, 0, xmin FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'constraint', oid, 0, xmin FROM pg_constraint WHERE connamespace IN (SELECT oid FROM ours)
    UNION ALL SELECT 'function', oid, 0, xmin FROM pg_proc WHERE pronamespace IN (SELECT oid FROM ours)
    UNION ALL SELECT 'statistic', starelid, staattnum, xmin FROM pg_statistic
              WHERE starelid IN (SELECT oid FROM tables))
    SELECT md5(string_agg(rows::text, ' ' ORDER BY rows::text)) FROM rows
    """
)
WITH_ROWS = SQL(
    """
    SELECT relname, pg_table_size(oid) > %(small)s
    FROM pg_class
    WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
      AND relkind = 'r' AND pg_relation_size(oid) > 0
    """
)
# What an earlier test left open could still write, and would hold locks. (The function can wait by itself, in steps
# of a tenth of a second.)
END_THE_OTHERS = SQL(
    """
    SELECT pg_terminate_backend(pid), pg_sleep(0.001) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    """
)


class SqliteSchema:
    """A file with the schema, to be copied."""

    def __init__(self, folder: Path) -> None:
        self._original = folder / "schema.db"
        database = open_database(f"sqlite:///{self._original}", durable=False)
        migrate.upgrade(database)
        database.close()

    def copy_to(self, path: Path) -> None:
        shutil.copyfile(self._original, path)


class PostgresSchema:
    """The schema in one database, which tests use one after the other."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection: Connection | None = None
        self._definitions: str | None = None

    def remove(self) -> None:
        """Nothing is there."""
        self._remove(self._alone())

    def without_rows(self) -> None:
        """Everything is there, as the migrations leave it."""
        connection = self._alone()
        if self._is_as_made(connection):
            self._empty(connection)
            return
        self._remove(connection)
        self._make()
        assert list(self._filled(connection)) == ["meta"], "a migration wrote rows: keep them"
        self._note(connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _alone(self) -> Connection:
        """A connection, kept for the next time; nobody else has one."""
        if self._connection is not None:
            try:
                return _left_alone(self._connection)
            except psycopg.OperationalError:  # a test ended it
                self._connection.close()
        self._connection = psycopg.connect(self.url, autocommit=True)
        return _left_alone(self._connection)

    def _is_as_made(self, connection: Connection) -> bool:
        return self._definitions is not None and self._definitions == self._read(connection)

    def _read(self, connection: Connection) -> str | None:
        row = connection.execute(DEFINITIONS, {"schema": SCHEMA}).fetchone()
        assert row is not None
        return row[0]

    def _note(self, connection: Connection) -> None:
        self._definitions = self._read(connection)

    def _remove(self, connection: Connection) -> None:
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(SCHEMA)))

    def _make(self) -> None:
        database = open_database(self.url, durable=False)
        migrate.upgrade(database)
        database.close()

    def _empty(self, connection: Connection) -> None:
        filled = self._filled(connection)
        statements = [
            SQL("TRUNCATE {}" if is_large else "DELETE FROM {}").format(Identifier(SCHEMA, name))
            for name, is_large in filled.items()
        ]
        statements.append(
            SQL("INSERT INTO {} VALUES ('database_id', 'tests'), ('generation', 'first'), {}").format(META, VERSIONS)
        )
        connection.execute(SQL("; ").join(statements))
        if any(filled.values()):
            self._note(connection)

    def _filled(self, connection: Connection) -> dict[str, bool]:
        """The tables that have or had rows → whether they are large."""
        return dict(connection.execute(WITH_ROWS, {"schema": SCHEMA, "small": SMALL}).fetchall())


def _left_alone(connection: Connection) -> Connection:
    """The same, once all others are gone."""
    deadline = time.monotonic() + PATIENCE
    while connection.execute(END_THE_OTHERS).fetchall():
        assert time.monotonic() < deadline, "somebody cannot be ended"
    return connection
