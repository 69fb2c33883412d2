"""Lines that the processes of a run write to stdout and stderr, up to a size."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ostinato.isolation.frames import BYTES_OF_A_READ
from ostinato.isolation.plan import CUT

LONGEST_LINE: Final = 32 * 1024
STREAMS: Final = ("stdout", "stderr")

# The stream, and lines of it, only the last of which may be without its end; CUT, and how many bytes.
PassOn = Callable[[str, bytes], None]


class Output:
    """The two pipes of a child. What a run writes beyond `keep` bytes is read and counted, and thrown away."""

    def __init__(self, pipes: tuple[int, int], pass_on: PassOn, keep: int) -> None:
        for pipe in pipes:
            os.set_blocking(pipe, False)
        self.pipes = pipes
        self._open = set(pipes)
        self._pass_on, self._keep = pass_on, keep
        self._begun = {pipe: bytearray() for pipe in pipes}  # lines that have no end yet
        self.written = 0  # bytes of this run

    def read(self, pipe: int) -> bool:
        """Take what is there, at most AT_ONCE; False when there is nothing now."""
        if pipe not in self._open:
            return False
        try:
            data = os.read(pipe, BYTES_OF_A_READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._open.discard(pipe)
            return False
        room = max(self._keep - self.written, 0)
        self.written += len(data)
        self._take(pipe, data[:room])
        return True

    def drain(self) -> int:
        """Take all that was written until now and end the run's last lines; how many bytes it wrote."""
        for pipe in self.pipes:
            while self.read(pipe):
                pass
            self._end_line(pipe)
        if self.written > self._keep:
            self._pass_on(CUT, str(self.written - self._keep).encode())
        written, self.written = self.written, 0
        return written

    def is_open(self, pipe: int) -> bool:
        return pipe in self._open

    def close(self) -> None:
        for pipe in self.pipes:
            with suppress(OSError):
                os.close(pipe)
        self._open.clear()

    def _take(self, pipe: int, data: bytes) -> None:
        whole, newline, rest = data.rpartition(b"\n")
        begun = self._begun[pipe]
        if newline:
            self._pass_on(self._name(pipe), bytes(begun) + whole + newline)
            begun.clear()
        begun += rest
        if len(begun) > LONGEST_LINE:
            self._end_line(pipe)

    def _end_line(self, pipe: int) -> None:
        begun = self._begun[pipe]
        if begun:
            self._pass_on(self._name(pipe), bytes(begun))
            begun.clear()

    def _name(self, pipe: int) -> str:
        return STREAMS[self.pipes.index(pipe)]
