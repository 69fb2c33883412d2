"""The supervisor's selector for sockets, pipes and SIGCHLD."""

import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from ostinato.isolation.frames import Wire

Callback = Callable[[], None]


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class EventSelector:
    """A selector that calls a callback for each readable file, and sends the unsent bytes of connections."""

    def __init__(self, on_child_ended: Callback) -> None:
        self._selector = selectors.DefaultSelector()
        self._signal_out, self._signal_in = socket.socketpair()
        for end in (self._signal_out, self._signal_in):
            end.setblocking(False)
        signal.set_wakeup_fd(self._signal_in.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._on_child_ended = on_child_ended
        self.listen(self._signal_out, self._on_signal)

    def listen(self, to: HasFileno | int, callback: Callback) -> None:
        self._selector.register(to, selectors.EVENT_READ, callback)

    def forget(self, file: HasFileno | int) -> None:
        """Stop listening to a file. An unknown file is no error."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(file)

    def send_later(self, wire: Wire) -> None:
        """Send the unsent bytes as soon as the socket is writable."""
        if wire.unsent:
            self._listen_as(wire, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def wait(self, seconds: float | None) -> None:
        """Wait until a file is ready or the timeout passes, then call the callbacks."""
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

    def _on_signal(self) -> None:
        with suppress(BlockingIOError):
            self._signal_out.recv(4096)
        self._on_child_ended()
