"""SQLite's write-ahead log: seeing that somebody committed, and bringing it back into the file beside the work.

Left to SQLite, whoever commits the thousandth page of the log brings all of it back while everybody waits: every
fiftieth job was picked up 10 ms late. Workers do it on a connection of its own, passively (writers go on, and no reader
is waited for); a writer has to only where nobody works, or where more is written than workers keep up with.
"""

import sqlite3
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ostinato.store.sqlite import SqliteDatabase

LONGEST_LOG: Final = 10_000  # pages


class Watcher:
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


class Folding(Watcher):
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
