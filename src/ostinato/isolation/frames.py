"""Frames on the sockets: two JSON texts, each after its length.

The head is for the process that passes the frame on, the body for its receiver: the supervisor never reads a body.
Nothing is ever pickled.
"""

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

LENGTHS: Final = struct.Struct(">II")
BYTES_OF_A_READ: Final = 64 * 1024  # bytes read with one call

Head = dict[str, Any]


class Frame(NamedTuple):
    """A message: what it is about, and what it says."""

    head: Head
    body: bytes


def packed(head: Head, body: bytes = b"") -> bytes:
    """A frame as it goes over a socket."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


class Unpacking:
    """Puts frames together from what a socket brings."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now."""
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
    """One end of a socket that must keep nobody waiting: what does not go out at once goes out later."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._unpacking = Unpacking()
        self._out = bytearray()
        self.closed = False
        self.idle = True  # the last look found nothing to read

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> int:
        return len(self._out)

    def send(self, head: Head, body: bytes = b"") -> None:
        """Send, or keep for `flush`. To somebody who is gone: nothing; reading tells that."""
        self._out += packed(head, body)
        self.flush()

    def flush(self) -> None:
        """Send what is left."""
        try:
            while self._out and not self.closed:
                del self._out[: self._socket.send(self._out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._out.clear()

    def receive(self) -> Iterator[Frame]:
        """The frames that have come; `closed` is true afterwards when there will be no more."""
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
