"""The plan of a worker's processes, and the output of their runs by lines, up to a size."""

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self
from uuid import UUID

from ostinato.core.payload import LogMessage
from ostinato.isolation.frames import BYTES_OF_A_READ

OUTPUT: Final = logging.getLogger("ostinato.task")
CUT: Final = "cut"  # the stream of a line whose text is the number of bytes left out


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """The number of children, when to replace one, and the time that a run has to stop."""

    size: int = 1
    recycle_runs: int = 1000
    recycle_memory_mb: int = 256  # growth since its first run
    grace: timedelta = timedelta(seconds=5)
    keep_output: int = 10 * 1024 * 1024  # bytes of one run that are passed on

    def to_json(self) -> str:
        return json.dumps([self.size, self.recycle_runs, self.recycle_memory_mb, self.keep_output])

    @classmethod
    def from_json(cls, text: str) -> Self:
        size, recycle_runs, recycle_memory_mb, keep_output = json.loads(text)
        return cls(size, recycle_runs, recycle_memory_mb, keep_output=keep_output)


class WrittenLine(NamedTuple):
    """A line that a run wrote: to stdout or stderr, or as a log record."""

    execution_id: UUID | None  # None: written while nothing ran
    execution_key: str
    at: datetime
    stream: str  # stdout, stderr, log, cut
    level: int
    logger: str  # only for log records
    text: str


def to_logging(line: WrittenLine) -> None:
    """Log a line: a log record under its own logger, output under `ostinato.task`."""
    if line.stream == CUT:
        OUTPUT.warning(LogMessage(f"{int(line.text):,} bytes of output cut", {"execution_key": line.execution_key}))
    elif line.logger == OUTPUT.name:
        if OUTPUT.isEnabledFor(line.level):
            OUTPUT.log(line.level, LogMessage(line.text, {"execution_key": line.execution_key}))
    elif line.stream == "log":
        logging.getLogger(line.logger).log(line.level, "%s", line.text)
    elif OUTPUT.isEnabledFor(line.level):
        OUTPUT.log(line.level, LogMessage(line.text, {"stream": line.stream, "execution_key": line.execution_key}))


# -- The output of a run's processes on stdout and stderr, by lines, up to a size

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
