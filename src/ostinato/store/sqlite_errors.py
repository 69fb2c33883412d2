"""Translation of SQLite's errors."""

import sqlite3
from typing import Final

from ostinato.core.errors import ForeignDatabase, RowRefused, StoreError, StoreUnavailable
from ostinato.store.database import Duplicate

AWAY: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR}
    | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT}
)
# Errors that blame the values of a row.
OF_A_ROW: Final = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH})
UNIQUE: Final = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})


def translated(error: sqlite3.Error, name: str) -> StoreError:
    """Return the error of ours for one of the driver."""
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else code & 0xFF
    if code in UNIQUE:
        return Duplicate(str(error).partition(": ")[2])
    if kind in OF_A_ROW or isinstance(error, sqlite3.DataError):
        return RowRefused(f"The database {name} refused a row: {error}.")
    if kind == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk of {name} is full: make room and it goes on.")
    if kind in AWAY:
        return StoreUnavailable(f"The database {name} does not answer: {error}.")
    if kind == sqlite3.SQLITE_NOTADB:
        return ForeignDatabase(f"{name} is not a SQLite database: it is left as it is.")
    if kind == sqlite3.SQLITE_READONLY:
        return StoreError(f"{name} cannot be written: {error}.")
    return StoreError(f"The database {name} refused: {error}.")
