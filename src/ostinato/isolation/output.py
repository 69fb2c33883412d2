"""The output of a run's processes on stdout and stderr, by lines, up to a size."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ostinato.isolation.frames import BYTES_OF_A_READ
from ostinato.isolation.plan import CUT

LONGEST_LINE: Final = 32 * 1024
STREAMS: Final = ("stdout", "stderr")

# Takes a stream and its lines (the last one may be incomplete), or CUT and the number of bytes left out.
PassOn = Callable[[str, bytes], None]


class Output:
    """The two pipes of a child. Output beyond `keep` bytes is read and counted, but not passed on."""

    def __init__(self, pipes: tuple[int, int], pass_on: PassOn, keep: int) -> None:
        for pipe in pipes:
            os.set_blocking(pipe, False)
        self.pipes = pipes
        self._open = set(pipes)
        self._pass_on, self._keep = pass_on, keep
        self._incomplete = {pipe: bytearray() for pipe in pipes}  # lines without a newline yet
        self.written = 0  # bytes of this run

    def read(self, pipe: int) -> bool:
        """Read at most BYTES_OF_A_READ; return False if the pipe is empty or closed."""
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
        """Read everything written until now, pass on incomplete lines, and return the run's bytes of output."""
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
        incomplete = self._incomplete[pipe]
        if newline:
            self._pass_on(self._name(pipe), bytes(incomplete) + whole + newline)
            incomplete.clear()
        incomplete += rest
        if len(incomplete) > LONGEST_LINE:
            self._end_line(pipe)

    def _end_line(self, pipe: int) -> None:
        incomplete = self._incomplete[pipe]
        if incomplete:
            self._pass_on(self._name(pipe), bytes(incomplete))
            incomplete.clear()

    def _name(self, pipe: int) -> str:
        return STREAMS[self.pipes.index(pipe)]
