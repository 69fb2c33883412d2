"""The selector: sockets, pipes, and the signal of a child's end."""

import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from ostinato.isolation.frames import Wire

Call = Callable[[], None]


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Switchboard:
    """Calls whoever is responsible for what can be read, and sends what is left of what is to be sent."""

    def __init__(self, on_child_ended: Call) -> None:
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)
        signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._on_child_ended = on_child_ended
        self.listen(self._bell, self._on_bell)

    def listen(self, to: HasFileno | int, call: Call) -> None:
        self._selector.register(to, selectors.EVENT_READ, call)

    def forget(self, whom: HasFileno | int) -> None:
        """Listen no more; whoever is not listened to is not missed."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(whom)

    def send_later(self, wire: Wire) -> None:
        """Send the rest as soon as it can be sent."""
        if wire.unsent:
            self._listen_as(wire, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def wait(self, seconds: float | None) -> None:
        """Until somebody has something to say, or the time is over."""
        for key, mask in self._selector.select(seconds):
            if mask & selectors.EVENT_WRITE:
                self._flush(key.fileobj)
            if mask & selectors.EVENT_READ:
                key.data()

    def _flush(self, wire: Any) -> None:
        wire.flush()
        if not wire.unsent:
            self._listen_as(wire, selectors.EVENT_READ)

    def _listen_as(self, wire: Wire, events: int) -> None:
        with suppress(KeyError, ValueError):
            self._selector.modify(wire, events, self._selector.get_key(wire).data)

    def _on_bell(self) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        self._on_child_ended()
