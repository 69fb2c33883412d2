"""Capture of the output and log records of runs in this process; both still reach their targets.

A record or text belongs to the run in whose context it is written: an asyncio task, a worker's thread, or code that
copies the context (`asyncio.to_thread`). A bare `threading.Thread` has no such context: its output belongs to no run.
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
    """Capture what runs print and log while this context is open. Enter it after logging is configured."""
    with ExitStack() as undo:
        handler = RunLogHandler()
        logging.getLogger().addHandler(handler)
        undo.callback(logging.getLogger().removeHandler, handler)
        for name in ("stdout", "stderr"):
            undo.enter_context(_seen(name))
        yield


@contextmanager
def _seen(name: str) -> Iterator[None]:
    """Pass a stream of `sys` through a CapturedStream."""
    stream: TextIO | None = getattr(sys, name)
    if stream is None:  # the process has no such stream
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
    """Log handler that adds the records of a run to the run's log."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle a record without the handler's lock: most records belong to no run, and the rest may come from any
        thread."""
        context = Context.current()
        if context is not None and not hasattr(record, KEPT):
            context.keep_record(record.levelno, self.format(record))
        return True


class CapturedStream:
    """Wrapper of a stream that copies its text to the log of the run; all else is passed to the stream.

    A full device or a closed pipe fails no run: the log of the run still gets the text.
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
