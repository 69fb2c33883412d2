"""Frames on the sockets (two lengths, a head of JSON, a body of bytes), and the supervisor's selector.

The supervisor reads only heads, and passes bodies on unread. Nothing is pickled.
"""

import json
import selectors
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

LENGTHS: Final = struct.Struct(">II")
BYTES_OF_A_READ: Final = 64 * 1024  # bytes read with one call

Head = dict[str, Any]


class Frame(NamedTuple):
    """A message: a head with its kind and fields, and a body."""

    head: Head
    body: bytes


def packed(head: Head, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


class Unpacking:
    """Decoder of frames from the bytes of a socket."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete."""
        self._bytes += data
        while len(self._bytes) >= LENGTHS.size:
            head, body = LENGTHS.unpack_from(self._bytes)
            middle, end = LENGTHS.size + head, LENGTHS.size + head + body
            if len(self._bytes) < end:
                return
            frame = Frame(json.loads(self._bytes[LENGTHS.size : middle]), bytes(self._bytes[middle:end]))
            del self._bytes[:end]
            yield frame


class Wire:
    """A non-blocking connection for frames, which buffers unsent bytes."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._unpacking = Unpacking()
        self._out = bytearray()
        self.closed = False
        self.idle = True  # the last read found nothing

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> int:
        return len(self._out)

    def send(self, head: Head, body: bytes = b"") -> None:
        """Send, or keep for `flush`. A broken connection is no error here: reading notices it."""
        self._out += packed(head, body)
        self.flush()

    def flush(self) -> None:
        """Send the unsent bytes."""
        try:
            while self._out and not self.closed:
                del self._out[: self._socket.send(self._out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._out.clear()

    def receive(self) -> Iterator[Frame]:
        """Yield the frames received. `closed` is True once the other end has closed the connection."""
        try:
            data = self._socket.recv(BYTES_OF_A_READ)
        except (BlockingIOError, InterruptedError):
            self.idle = True
            return
        except OSError:
            data = b""
        self.idle = not data
        self.closed = self.closed or not data
        yield from self._unpacking.feed(data)

    def close(self) -> None:
        self.closed = True
        self._socket.close()


# -- The supervisor's selector for sockets, pipes and SIGCHLD

Callback = Callable[[], None]


class _HasFileno(Protocol):
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

    def listen(self, to: _HasFileno | int, callback: Callback) -> None:
        self._selector.register(to, selectors.EVENT_READ, callback)

    def forget(self, file: _HasFileno | int) -> None:
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
