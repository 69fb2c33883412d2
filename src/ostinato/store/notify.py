"""Notifications: a hint that there is work, so that processes poll rarely. Correctness depends on polling alone.

SQLite: each listener binds a datagram socket in the folder `<file>-notify`; a notification is one byte sent to all of
them. If the path is too long for a socket, the listener checks every 50 ms whether the file has changed. It does so for
a while also after COMMIT_FOLLOWS: a caller wrote in its own transaction, whose commit is not seen here.

PostgreSQL: LISTEN on a connection of its own, which is opened again when it breaks.
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

COMMITTED: Final = b"!"
COMMIT_FOLLOWS: Final = b"?"
STOP: Final = b"."
LONGEST_PATH: Final = 103  # of a socket, in bytes: on macOS; Linux allows a little more
LOOK_EVERY: Final = 0.05  # seconds
LOOK_FOR: Final = 10.0  # seconds, after COMMIT_FOLLOWS
FIRST_RETRY: Final = 0.05  # seconds
SLOWEST_RETRY: Final = 5.0
JOIN_TIMEOUT: Final = 2.0  # a thread that is still connecting to an unavailable server is not waited for


def socket_folder(file: Path) -> Path:
    """Return the folder of a database file's notification sockets."""
    return file.with_name(file.name + "-notify")


def notify_all(folder: Path, message: bytes = COMMITTED) -> None:
    """Notify every socket in a folder; delete the sockets of dead processes."""
    try:
        sockets = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".sock")]
    except OSError:
        return  # there are no listeners
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in sockets:
            _send(sender, path, message)


def _send(sender: socket.socket, path: str, message: bytes) -> None:
    try:
        sender.sendto(message, path)
    except ConnectionRefusedError:
        with suppress(OSError):
            os.unlink(path)
    except OSError:
        pass  # full: it will wake anyway; missing: its listener has closed


class _NotifyWatcher(Protocol):
    def version(self) -> int:
        """Return a number that changes with every commit of another connection."""

    def close(self) -> None: ...


class FileListener:
    """Listener beside a database file."""

    def __init__(self, file: Path, watcher: _NotifyWatcher, on_notify: Callable[[], None]) -> None:
        self._watcher, self._on_notify = watcher, on_notify
        self._receiver, self._sender, self._path = _bind(socket_folder(file))
        self._look_until = 0.0 if self._path else float("inf")
        self._thread = threading.Thread(target=self._listen, name="ostinato-notify", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)
        with suppress(OSError):
            self._sender.send(STOP)
        _join(self._thread)

    def _listen(self) -> None:
        seen: int | None = None
        while STOP not in (received := self._receive()):
            if COMMIT_FOLLOWS in received:
                self._look_until = max(self._look_until, time.monotonic() + LOOK_FOR)
            before, seen = seen, self._look() if self._looking else None
            if COMMITTED in received or seen not in (before, None):  # the first check always notifies
                self._on_notify()
        for used in (self._receiver, self._sender, self._watcher):
            used.close()

    @property
    def _looking(self) -> bool:
        return time.monotonic() < self._look_until

    def _look(self) -> int:
        try:
            return self._watcher.version()
        except StoreError:
            return 0  # unavailable; later the number differs, which notifies

    def _receive(self) -> set[bytes]:
        """Return the bytes received since the last call; wait for one unless the file must be checked."""
        self._receiver.settimeout(LOOK_EVERY if self._looking else None)
        received = set()
        with suppress(TimeoutError, BlockingIOError):
            while True:
                received.add(self._receiver.recv(1))
                self._receiver.setblocking(False)
        return received


def _bind(folder: Path) -> tuple[socket.socket, socket.socket, str | None]:
    """Bind a socket; return it, a socket to send to it, and its path (None: a socket pair without a path)."""
    path = str(folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise OSError("too long")
        folder.mkdir(mode=0o700, exist_ok=True)
        connection.bind(path)
    except OSError:
        connection.close()
        return (*socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), None)
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(path)
    return connection, sender, path


class _ListeningConnection(Protocol):
    """A connection that can wait for notifications."""

    def fileno(self) -> int: ...
    def drain(self) -> bool:
        """Read all that has arrived; return True if a notification was among it. Raise StoreUnavailable if the
        connection is closed."""

    def close(self) -> None: ...


class ServerListener:
    """Listener to a server, through connections that `connect` makes."""

    def __init__(self, connect: Callable[[], _ListeningConnection], on_notify: Callable[[], None]) -> None:
        self._connect, self._on_notify = connect, on_notify
        self._stopped = threading.Event()
        self._wakes, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="ostinato-notify", daemon=True)
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
                connection = self._connect()
                pause = FIRST_RETRY
                self._receive(connection)
            self._stopped.wait(pause)
            pause = min(2 * pause, SLOWEST_RETRY)
        self._wakes.close()
        self._wake.close()

    def _receive(self, connection: _ListeningConnection) -> None:
        """Notify until the connection breaks; once at the start, for notifications sent before it listened."""
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        try:
            notified = True
            while not self._stopped.is_set():
                if notified:
                    self._on_notify()
                poll.poll()
                notified = connection.drain() and not self._stopped.is_set()
        finally:
            connection.close()


def _join(thread: threading.Thread) -> None:
    if thread is not threading.current_thread():
        thread.join(JOIN_TIMEOUT)
