"""Capture of the output and log records of runs in this process; both still reach their targets.

A record or a text belongs to the run whose context it is written in: that of an asyncio task, of a worker's thread, and
of code that copies the context (`asyncio.to_thread`). A bare `threading.Thread` has no context of a run: its output
belongs to no run.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO, cast

from ostinato.task import Context
from ostinato.task.context import KEPT


@contextmanager
def captured() -> Iterator[None]:
    """Let what runs print and log be kept, as long as this lasts. To be entered when logging is configured."""
    with ExitStack() as undo:
        handler = RunLogHandler()
        logging.getLogger().addHandler(handler)
        undo.callback(logging.getLogger().removeHandler, handler)
        for name in ("stdout", "stderr"):
            undo.enter_context(_seen(name))
        yield


@contextmanager
def _seen(name: str) -> Iterator[None]:
    """Look at what goes to a stream of `sys`."""
    stream: TextIO | None = getattr(sys, name)
    if stream is None:  # a process without one
        yield
        return
    between = CapturedStream(stream, name)
    setattr(sys, name, cast(TextIO, between))
    try:
        yield
    finally:
        if getattr(sys, name) is between:
            setattr(sys, name, stream)


class RunLogHandler(logging.Handler):
    """Hands the records of a run to its log."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock of handlers: most records are nobody's, and the others may come from any thread."""
        context = Context.current()
        if context is not None and not hasattr(record, KEPT):
            context.keep_record(record.levelno, self.format(record))
        return True


class CapturedStream:
    """A stream that shows the run what it prints, and passes it on. All else is that of the stream itself.

    A device that is full, or a pipe that is closed, fails no run: what the run prints is kept in its log anyway.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        context = Context.current()
        if context is not None:
            context.keep_printed(self._name, text)
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
