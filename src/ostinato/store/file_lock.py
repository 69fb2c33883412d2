"""The write lock of a SQLite file.

With SQLite's own busy handler one process starves the others, so writers queue on a lock file beside the database. The
lock only orders them; correctness never depends on it. `flock` is polled because a blocking call has no deadline; it
works on local file systems only, like WAL.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ostinato.core.errors import StoreError, StoreUnavailable

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
