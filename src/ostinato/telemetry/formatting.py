"""Format of log lines. Only commands and `app.run` configure logging; with the library its user does."""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import TextIO

from ostinato.config import LogFormat, Settings
from ostinato.core.payload import LogMessage

LONG_NAMES = ("job_id", "execution_key", "worker")
DIM, PLAIN = "\033[2m", "\033[0m"
COLOURS = {"WARN": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}


def configure_logging(settings: Settings) -> None:
    """Log to stderr by the settings; leave a root logger with handlers as it is."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.getLogger("ostinato").setLevel(level)
    root = logging.getLogger()
    if not root.handlers:
        handler = _Stderr() if sys.stderr is not None else logging.NullHandler()
        handler.setFormatter(_lines(settings.log_format, sys.stderr))
        root.addHandler(handler)
        root.setLevel(level)


def _lines(wanted: LogFormat, stream: TextIO | None) -> "TextLines":
    if wanted is LogFormat.JSON:
        return JsonLines()
    return _TerminalLines() if stream is not None and stream.isatty() and "NO_COLOR" not in os.environ else TextLines()


class _Stderr(logging.StreamHandler[TextIO]):
    """The handler of log lines. A full device or a closed pipe only loses lines."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class TextLines(logging.Formatter):
    """`2026-11-16T08:00:00.000Z INFO  Executing job  job_id=… task=…`."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        return f"{self.formatTime(record)} {level:<5} {record.message}"


class _TerminalLines(TextLines):
    """Lines for a terminal: short times, colours, and the long names dimmed at the end."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        said: object = record.msg
        line = said if isinstance(said, LogMessage) else LogMessage(record.message, {})
        names = {name: value for name, value in line.fields.items() if name in LONG_NAMES}
        others = {name: value for name, value in line.fields.items() if name not in LONG_NAMES}
        at = f"{datetime.fromtimestamp(record.created).astimezone():%H:%M:%S}"
        text = f"{COLOURS.get(level, PLAIN)}{level:<5} {LogMessage(line.event, others)}{PLAIN}"
        return f"{DIM}{at}{PLAIN} {text}{DIM}{LogMessage('', names)}{PLAIN}"


class JsonLines(TextLines):
    """Lines with one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        said: object = record.msg
        line = said if isinstance(said, LogMessage) else LogMessage(record.getMessage(), {})
        fields = line.fields | {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": line.event,
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)
