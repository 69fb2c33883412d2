"""Shapes of execution logs: JSON and text lines."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from ostinato.core.arguments import FieldKind, arg, choice, whole
from ostinato.core.read_models import KeptLine, LogPage, Stream
from ostinato.service.log_levels import MOST_LINES, level_word
from ostinato.shapes.answers import JsonObject, told

LAST: Final = 2**53

LevelWord = Literal["debug", "info", "warning", "error", "critical"]


LEVELS: Final = get_args(LevelWord)


def _level(given: Any) -> str:
    return choice(*LEVELS).read(given.lower() if isinstance(given, str) else given)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A filter of log lines."""

    after: int = arg(whole(0, LAST), "Only lines after this number.", 0)
    level: str | None = arg(FieldKind(choice(*LEVELS).schema, _level), "Minimum level of the lines.", None)
    limit: int | None = arg(
        whole(1, MOST_LINES), "Maximum number of lines. Default: 1000; as text/plain, all lines.", None
    )


class LineAnswer(JsonObject):
    """A line of a log. Printed lines have the level info."""

    number: int
    at: datetime
    level: LevelWord
    stream: Stream
    text: str

    @classmethod
    def of(cls, line: KeptLine) -> "LineAnswer":
        return cls(number=line.number, at=line.at, level=level_word(line.level), stream=line.stream, text=line.text)


class LogAnswer(JsonObject):
    """Log lines of an execution, the oldest first."""

    lines: list[LineAnswer]
    next: int = told("Give it as `after` to read the next lines.")
    cut: int = told("Bytes that were dropped because the log was full.")

    @classmethod
    def of(cls, page: LogPage) -> "LogAnswer":
        return cls(lines=[LineAnswer.of(line) for line in page.lines], next=page.next, cut=page.cut)


def line_text(line: KeptLine) -> str:
    """Return a line as text: time, level or stream, and message."""
    at = line.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    word = level_word(line.level).upper() if line.stream is Stream.LOG else line.stream.value
    return f"{at} {word:<8} {line.text}\n"


def cut_text(cut: int) -> str:
    """Return the last line of a log that was cut."""
    return f"… {cut:,} bytes were cut: the log was full …\n"
