"""The file of a SQLite database: its write lock, and the check that it is still the one that was opened."""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Final

from ostinato.core.errors import DatabaseReplaced, StoreError, StoreUnavailable

# -- The write lock of a SQLite file.
#
# With SQLite's own busy handler one process starves the others, so writers queue on a lock file beside the database.
# The
# lock only orders them; correctness never depends on it. `flock` is polled because a blocking call has no deadline; it
# works on local file systems only, like WAL.

FILE_MODE: Final = 0o660  # less the umask; args may be private
SHORTEST_POLL: Final = 0.00005  # seconds
LONGEST_POLL: Final = 0.0002  # a process that polls more slowly gets less than its share


class FileLock:
    """The write lock: one thread of this process, one process of this host. Waiting for it has a deadline."""

    def __init__(self, file: Path) -> None:
        self._file = file.with_name(file.name + ".lock")
        self._thread = threading.Lock()
        self._owner: int | None = None
        self._descriptor: int | None = None

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        if self._owner == threading.get_ident():
            raise StoreError("A writing transaction cannot be opened inside another.")
        until = time.monotonic() + seconds
        if not self._thread.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            raise self._too_late(seconds)
        try:
            self._owner = threading.get_ident()
            if not self._lock(until):
                raise self._too_late(seconds)
            try:
                yield
            finally:
                fcntl.flock(self._opened(), fcntl.LOCK_UN)
        finally:
            self._owner = None
            self._thread.release()

    def _lock(self, until: float) -> bool:
        descriptor, pause = self._opened(), SHORTEST_POLL
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_POLL)

    def _opened(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            except OSError as error:
                raise StoreError(f"The lock file {self._file} cannot be used: {error.strerror}.") from error
        return self._descriptor

    def close(self) -> None:
        """Close the lock file; in the child of a fork the parent keeps the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _too_late(self, seconds: float) -> StoreUnavailable:
        return StoreUnavailable(f"Other writers have held the lock of {self._file.with_suffix('')} for {seconds:g} s.")


# -- The check that a SQLite file is still the one that this process has opened.
#
# A file can be moved, deleted or replaced while a process works on it. SQLite continues with the file it has opened,
# and
# a second process under the same name works on another file: both run everything. So each transaction compares the
# inodes
# of the file and of its log (`-wal`) with those that were opened. An inode number is not reused while this process has
# the file open. SQLite keeps the log while any process has a connection: only without connections may it change. So
# only
# a transaction, which has a connection, notes the log. Connections are opened and closed under one lock.
#
# A connection to a replaced file is never closed. SQLite would take it for the last one and delete the log by its name,
# which by then is the log of another process, with that process's commits in it.

NO_LOG: Final = 0
Inodes = tuple[int, int, int]  # device, file, log


class SameFile:
    """The inodes of a file and of its log when they were opened, and the connections to it."""

    def __init__(self, file: Path) -> None:
        self._file, self._log = str(file), f"{file}-wal"
        self._opened: Inodes | None = None
        self.lock = RLock()
        self.connected: set[sqlite3.Cursor] = set()

    def note(self) -> None:
        """Note the inode of the current file; its log is noted by the first transaction."""
        self._opened = (*self._seen()[:2], NO_LOG)

    @property
    def noted(self) -> bool:
        return self._opened is not None

    def require(self) -> None:
        """Raise DatabaseReplaced unless file and log are those that were opened. The caller has a connection."""
        seen = self._compared()
        if self._opened is not None:
            self._opened = seen

    def require_for_new(self) -> None:
        """Do the same for a caller without a connection: its log may still change, so it is not noted."""
        with self.lock:
            self._compared()

    def part_with(self, cursor: sqlite3.Cursor) -> None:
        """Close a connection, unless its file was replaced: closing it would harm the other one."""
        with self.lock:
            if self._holds():
                cursor.connection.close()
            else:
                leave_open(cursor.connection)
            self.connected.discard(cursor)
            if not self.connected and self._opened is not None:
                self._opened = (*self._opened[:2], NO_LOG)

    def forget(self) -> None:
        """Accept another file, once no connection to this one is left."""
        if not self.connected:
            self._opened = None

    def _compared(self) -> Inodes:
        seen, opened = self._seen(), self._opened
        if opened is not None and opened not in (seen, (*seen[:2], NO_LOG)):
            raise DatabaseReplaced(
                f"The database file {self._file} was moved, deleted or replaced while it was in use: this process "
                "stops and writes nothing more. Make sure that the right file is there, then start it again."
            )
        return seen

    def _holds(self) -> bool:
        try:
            self._compared()
        except (DatabaseReplaced, StoreUnavailable):
            return False
        return True

    def _seen(self) -> Inodes:
        try:
            file = os.stat(self._file)
            try:
                return file.st_dev, file.st_ino, os.stat(self._log).st_ino
            except FileNotFoundError:
                return file.st_dev, file.st_ino, NO_LOG
        except (FileNotFoundError, NotADirectoryError):
            return NO_LOG, NO_LOG, NO_LOG
        except OSError as error:
            raise StoreUnavailable(f"The database {self._file} cannot be read: {error.strerror}.") from error


def leave_open(connection: sqlite3.Connection) -> None:
    """Keep a connection open for the rest of this process, even at the end of Python."""
    import ctypes  # only here: 10 ms that hardly any process needs

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
