"""Read-only access to the tables of another system, in SQLite or PostgreSQL."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from ostinato.config.extras import need
from ostinato.core.errors import Invalid, NotFound, StoreUnavailable

Row = Mapping[str, Any]
REFERENCE: Final = "env:"
SQLITE: Final = "sqlite:///"
SERVERS: Final = ("postgresql", "postgres")


class _Cursor(Protocol):
    description: Any

    def execute(self, statement: str, parameters: Any = (), /) -> Any: ...
    def fetchall(self) -> Any: ...
    def close(self) -> Any: ...


class Tables:
    """The tables of a database that is only read."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str) -> list[Row]:
        """Return the rows of a SELECT by column; a wrong table or column is Invalid."""
        cursor: _Cursor = self._connection.cursor()
        try:
            cursor.execute(statement)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except Exception as error:  # each driver has its own
            if not _is_of_driver(error):
                raise
            raise Invalid(f"The tables cannot be read: {str(error).splitlines()[0]}.") from None
        finally:
            cursor.close()

    def has(self, table: str) -> bool:
        try:
            self.rows(f"SELECT * FROM {name(table)} LIMIT 0")
        except Invalid:
            with suppress(Exception):
                self._connection.rollback()
            return False
        return True


def name(table: str) -> str:
    """Quote the name of a table, which may have a schema before it."""
    return ".".join(f'"{part}"' for part in table.replace('"', "").split("."))


def _is_of_driver(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("sqlite3", "psycopg")


@contextmanager
def opened(source: str) -> Iterator[Tables]:
    """Open a database by its URL, or the SQLite file of a path; `env:NAME` is a variable that holds the URL."""
    connection = _connected(_url(source))
    try:
        yield Tables(connection)
    finally:
        connection.close()


def is_database(source: str) -> bool:
    """Return True if a source names a database, and not a file of definitions."""
    return "://" in source or source.startswith(REFERENCE) or source.endswith((".db", ".sqlite", ".sqlite3"))


def _url(source: str) -> str:
    if not source.startswith(REFERENCE):
        return source
    variable = source.removeprefix(REFERENCE)
    if not os.environ.get(variable):
        raise Invalid(f"The variable {variable} is not set: it must hold the URL of the database.")
    return os.environ[variable]


def _connected(url: str) -> Any:
    scheme, separator, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    if not separator or kind == "sqlite":
        return _sqlite(url if not separator else "/" + rest.lstrip("/") if rest.startswith("//") else rest.lstrip("/"))
    if kind not in SERVERS:
        raise Invalid(f"{scheme}:// is not read: give sqlite:///FILE, postgresql://HOST/DATABASE or env:NAME.")
    need("postgres", "psycopg", "A PostgreSQL URL")
    import psycopg

    try:
        connection = psycopg.connect(f"postgresql://{rest}", connect_timeout=10)
    except psycopg.Error as error:
        raise StoreUnavailable(f"The database does not answer: {str(error).splitlines()[0]}.") from None
    connection.read_only = True
    return connection


def _sqlite(file: str) -> sqlite3.Connection:
    if not Path(file).is_file():
        raise NotFound(f"There is no file {file}.")
    return sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)
