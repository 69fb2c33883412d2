"""Maintenance beside the work: SQLite's write-ahead log, and dead rows of PostgreSQL's busy tables.

With SQLite's default, the thousandth page makes its commit copy the whole log into the file while all writers wait:
every fiftieth job was picked up 10 ms late. Here workers do it on a connection of their own, passively (no writer and
no reader waits). A writer does it only if there are no workers, or if they cannot keep up.

On PostgreSQL each run leaves dead rows in `live` and `jobs`, first in the order of the queue's index, and every claim
passes them. Autovacuum comes once a minute at most: at 3,000 jobs a second a claim of 100 then took 9 instead of 3 ms.
Workers check every few seconds and VACUUM beyond a limit: 15,000 dead rows take 7 ms, and no transaction waits.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ostinato.core.errors import StoreError
from ostinato.store.sqlite_file import SameFile

LONGEST_LOG: Final = 10_000  # pages


class _File(Protocol):
    """The part of a SQLite database that is used here."""

    same_file: SameFile

    def reader(self) -> sqlite3.Cursor: ...

    def execute(self, cursor: sqlite3.Cursor, sql: str) -> list[tuple[Any, ...]]: ...


class CommitWatcher:
    """Detector of commits by other connections; its numbers can only be compared on one connection."""

    def __init__(self, database: _File) -> None:
        self._database = database
        self._cursor: sqlite3.Cursor | None = None

    def version(self) -> int:
        """Return a number that changes with every commit of another connection."""
        return self._first("data_version")

    def close(self) -> None:
        if self._cursor is not None:
            self._database.same_file.part_with(self._cursor)
            self._cursor = None

    def _first(self, pragma: str, place: int = 0) -> int:
        if self._cursor is None:
            self._cursor = self._database.reader()
        return int(self._database.execute(self._cursor, f"PRAGMA {pragma}")[0][place])


class Folding(CommitWatcher):
    """Checkpoints that copy the log into the file when it has new pages."""

    _folded: int | None = None  # the version of the last checkpoint

    def fold(self) -> int:
        """Checkpoint the log; return its number of pages."""
        version = self.version()
        if version == self._folded:
            return 0
        self._database.same_file.require()  # the log of a replaced file is not checkpointed
        pages = self._first("wal_checkpoint(PASSIVE)", 1)
        self._folded = version
        return max(pages, 0)  # -1: another process is doing it


log = logging.getLogger("ostinato.store")

BUSY: Final = ("jobs", "live")
MOST_DEAD: Final = 10_000  # dead rows,
DEAD_SHARE: Final = 0.05  # plus this share of the live rows: large tables take longer
RETRY_AFTER: Final = 60.0  # seconds to wait if dead rows remain: a long transaction still sees them
LONGEST_PAUSE: Final = 600.0  # seconds


class _Dialect(Protocol):
    def table(self, name: str) -> str: ...


class _Server(Protocol):
    """The part of a PostgreSQL database that is used here."""

    @property
    def dialect(self) -> _Dialect: ...

    def ask(self, question: str) -> list[tuple[Any, ...]]: ...

    def execute_long(self, sql: str, limit: float) -> None: ...


class Vacuum:
    """VACUUM of one database's busy tables. If the role does not own them, the server only warns."""

    def __init__(self, database: _Server, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._not_before = float("-inf")

    def clear(self) -> None:
        """Clear the tables above the limit. No table is truncated: for that, others would have to wait."""
        if self._clock() < self._not_before:
            return
        worth_it = self._worth_it()
        if not worth_it:
            return
        try:
            for table in worth_it:
                name = self._database.dialect.table(table)
                self._database.execute_long(f"VACUUM (TRUNCATE false, SKIP_LOCKED) {name}", LONGEST_PAUSE)
        except StoreError as error:  # not urgent, and autovacuum also exists
            log.warning("A table could not be cleared of dead rows: %s", error)
        if worth_it & self._worth_it():
            self._not_before = self._clock() + RETRY_AFTER

    def _worth_it(self) -> set[str]:
        tables = (f"({_text(name)}, to_regclass({_text(self._database.dialect.table(name))}))" for name in BUSY)
        found = self._database.ask(
            "SELECT name, pg_stat_get_dead_tuples(id), pg_stat_get_live_tuples(id) "
            f"FROM (VALUES {', '.join(tables)}) AS busy (name, id) WHERE id IS NOT NULL"
        )
        return {name for name, dead, living in found if dead >= MOST_DEAD + DEAD_SHARE * living}


def _text(word: str) -> str:
    return f"'{word}'"  # our own names, and a checked schema name
