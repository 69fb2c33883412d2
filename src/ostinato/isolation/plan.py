"""The plan of a worker's processes, and the messages about their runs."""

import json
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self
from uuid import UUID

from ostinato.core.payload import LogMessage

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


class Written(NamedTuple):
    """A line that a run wrote: to stdout or stderr, or as a log record."""

    execution_id: UUID | None  # None: written while nothing ran
    execution_key: str
    at: datetime
    stream: str  # stdout, stderr, log, cut
    level: int
    logger: str  # only for log records
    text: str


def to_logging(line: Written) -> None:
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
