"""Doorbells: a hint that there is something to do, so that nobody has to poll often. Polling is the truth.

SQLite: each listener binds a datagram socket in the folder `<file>-bells`; to ring is to send a byte to all of
them. Where that cannot be (a path too long for a socket) the listener looks every 50 ms whether the file changed.
It does so, for a while, also when told SOON: somebody wrote in a transaction of his own, whose end we do not see.
PostgreSQL: LISTEN on a connection of its own, made again when it breaks.
"""

import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from ostinato.core.errors import StoreError

NOW: Final = b"!"
SOON: Final = b"?"
STOP: Final = b"."
LONGEST_PATH: Final = 103  # of a socket, in bytes: on macOS; Linux allows a little more
LOOK_EVERY: Final = 0.05  # seconds
LOOK_FOR: Final = 10.0  # seconds, after SOON
FIRST_RETRY: Final = 0.05  # seconds
SLOWEST_RETRY: Final = 5.0
LONGEST_GOODBYE: Final = 2.0  # a thread that is just connecting to a server that is away is left to itself


def bells_beside(file: Path) -> Path:
    """The folder of a database file's doorbells."""
    return file.with_name(file.name + "-bells")


def ring_all(folder: Path, message: bytes = NOW) -> None:
    """Ring every bell in a folder; those of the dead are taken down."""
    try:
        bells = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".sock")]
    except OSError:
        return  # nobody has ever listened
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for bell in bells:
            _ring(sender, bell, message)


def _ring(sender: socket.socket, bell: str, message: bytes) -> None:
    try:
        sender.sendto(message, bell)
    except ConnectionRefusedError:
        with suppress(OSError):
            os.unlink(bell)
    except OSError:
        pass  # full: it rings already; gone: it needs no bell


class NotifyWatcher(Protocol):
    def version(self) -> int:
        """A number that changes with every commit of others."""

    def close(self) -> None: ...


class FileListener:
    """Listens beside a database file."""

    def __init__(self, file: Path, watcher: NotifyWatcher, on_ring: Callable[[], None]) -> None:
        self._watcher, self._on_ring = watcher, on_ring
        self._ear, self._mouth, self._path = _bell(bells_beside(file))
        self._look_until = 0.0 if self._path else float("inf")
        self._thread = threading.Thread(target=self._listen, name="ostinato-bell", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)
        with suppress(OSError):
            self._mouth.send(STOP)
        _join(self._thread)

    def _listen(self) -> None:
        seen: int | None = None
        while STOP not in (heard := self._hear()):
            if SOON in heard:
                self._look_until = max(self._look_until, time.monotonic() + LOOK_FOR)
            before, seen = seen, self._look() if self._looking else None
            if NOW in heard or seen not in (before, None):  # the first look rings: it may have come too late
                self._on_ring()
        for used in (self._ear, self._mouth, self._watcher):
            used.close()

    @property
    def _looking(self) -> bool:
        return time.monotonic() < self._look_until

    def _look(self) -> int:
        try:
            return self._watcher.version()
        except StoreError:
            return 0  # away; when it is back the number differs, which rings

    def _hear(self) -> set[bytes]:
        """Return the bytes received since the last call; wait for one unless the file must be checked."""
        self._ear.settimeout(LOOK_EVERY if self._looking else None)
        heard = set()
        with suppress(TimeoutError, BlockingIOError):
            while True:
                heard.add(self._ear.recv(1))
                self._ear.setblocking(False)
        return heard


def _bell(folder: Path) -> tuple[socket.socket, socket.socket, str | None]:
    """An ear, a mouth to talk to it, and the path where others can."""
    path = str(folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock")
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise OSError("too long")
        folder.mkdir(mode=0o700, exist_ok=True)
        ear.bind(path)
    except OSError:
        ear.close()
        return (*socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), None)
    mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    mouth.connect(path)
    return ear, mouth, path


class Ear(Protocol):
    """A connection that listens."""

    def fileno(self) -> int: ...
    def drain(self) -> bool:
        """Take what has arrived; was there a ring? StoreUnavailable when the connection is gone."""

    def close(self) -> None: ...


class ServerListener:
    """Listens to a server, through connections that `connect` makes."""

    def __init__(self, connect: Callable[[], Ear], on_ring: Callable[[], None]) -> None:
        self._connect, self._on_ring = connect, on_ring
        self._stopped = threading.Event()
        self._wakes, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="ostinato-bell", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._wake.send(STOP)
        _join(self._thread)

    def _listen(self) -> None:
        pause = FIRST_RETRY
        while not self._stopped.is_set():
            with suppress(StoreError):
                ear = self._connect()
                pause = FIRST_RETRY
                self._hear(ear)
            self._stopped.wait(pause)
            pause = min(2 * pause, SLOWEST_RETRY)
        self._wakes.close()
        self._wake.close()

    def _hear(self, ear: Ear) -> None:
        """Ring until the connection breaks; once at the start, for what was said while nobody listened."""
        poll = select.poll()
        poll.register(ear.fileno(), select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        try:
            rang = True
            while not self._stopped.is_set():
                if rang:
                    self._on_ring()
                poll.poll()
                rang = ear.drain() and not self._stopped.is_set()
        finally:
            ear.close()


def _join(thread: threading.Thread) -> None:
    if thread is not threading.current_thread():
        thread.join(LONGEST_GOODBYE)
