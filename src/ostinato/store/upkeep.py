"""SQLite's write-ahead log: seeing that somebody committed, and bringing it back into the file beside the work.

Left to SQLite, whoever commits the thousandth page of the log brings all of it back while everybody waits: every
fiftieth job was picked up 10 ms late. Workers do it on a connection of its own, passively (writers go on, and no reader
is waited for); a writer has to only where nobody works, or where more is written than workers keep up with.

Clearing PostgreSQL's busy tables of dead rows, before every claim has to pass them by.

Each run leaves dead rows in `live` and `jobs`, and their places stand first in the index of the queue. Autovacuum
comes once a minute at most: at 3,000 jobs a second a claim of 100 then took 9 instead of 3 ms. Workers look every few
seconds, and clear up where it is worth it: 15,000 dead rows are gone in 7 ms, and nobody waits for a VACUUM.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ostinato.core.errors import StoreError

if TYPE_CHECKING:
    from ostinato.store.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from ostinato.store.postgres import PostgresDatabase

LONGEST_LOG: Final = 10_000  # pages


class CommitWatcher:
    """Sees whether somebody has committed; a number means something on one connection only."""

    def __init__(self, database: "SqliteDatabase") -> None:
        self._database = database
        self._cursor: sqlite3.Cursor | None = None

    def version(self) -> int:
        """A number that changes with every commit of others."""
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
    """Brings the log back into the file when there is something new in it."""

    _folded: int | None = None  # the version up to which that was done

    def fold(self) -> int:
        """Checkpoint the log; return its number of pages."""
        version = self.version()
        if version == self._folded:
            return 0
        self._database.same_file.require()  # the log of a file that is gone is not brought back
        pages = self._first("wal_checkpoint(PASSIVE)", 1)
        self._folded = version
        return max(pages, 0)  # -1: somebody else is at it


log = logging.getLogger("ostinato.store")

BUSY: Final = ("jobs", "live")
WORTH_IT: Final = 10_000  # dead rows,
SHARE: Final = 0.05  # and so many for each row that lives: large tables take longer
IN_VAIN: Final = (
    60.0  # seconds to leave it alone when the dead stay: somebody's long transaction still sees them
)
LONGEST_PAUSE: Final = 600.0  # seconds


class Vacuum:
    """Clears the tables of one database. Where the role does not own them the server only warns."""

    def __init__(self, database: "PostgresDatabase", clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._not_before = float("-inf")

    def clear(self) -> None:
        """Clear what is worth it. No table is made shorter: for that alone others would have to wait."""
        if self._clock() < self._not_before:
            return
        worth_it = self._worth_it()
        if not worth_it:
            return
        try:
            for table in worth_it:
                name = self._database.dialect.table(table)
                self._database.say_at_length(f"VACUUM (TRUNCATE false, SKIP_LOCKED) {name}", LONGEST_PAUSE)
        except StoreError as error:  # nobody needs it at once, and autovacuum is there too
            log.warning("A table could not be cleared of dead rows: %s", error)
        if worth_it & self._worth_it():
            self._not_before = self._clock() + IN_VAIN

    def _worth_it(self) -> set[str]:
        tables = (
            f"({_text(name)}, to_regclass({_text(self._database.dialect.table(name))}))" for name in BUSY
        )
        found = self._database.ask(
            "SELECT name, pg_stat_get_dead_tuples(id), pg_stat_get_live_tuples(id) "
            f"FROM (VALUES {', '.join(tables)}) AS busy (name, id) WHERE id IS NOT NULL"
        )
        return {name for name, dead, living in found if dead >= WORTH_IT + SHARE * living}


def _text(word: str) -> str:
    return f"'{word}'"  # names of ours, and of a schema that was checked
