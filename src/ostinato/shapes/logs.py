"""Shapes of execution logs: JSON and text lines."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field

from ostinato.service.log_levels import MOST_LINES, level_word
from ostinato.shapes.base import RequestBody
from ostinato.store.logs import KeptLine, LogPage, Stream

LAST: Final = 2**53

LevelWord = Literal["debug", "info", "warning", "error", "critical"]


def _small(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


class LogQuery(RequestBody):
    """A filter of log lines."""

    after: Annotated[int, Field(ge=0, le=LAST, description="Only lines after this number.")] = 0
    level: Annotated[LevelWord | None, BeforeValidator(_small)] = Field(None, description="Minimum level of the lines.")
    limit: Annotated[int | None, Field(ge=1, le=MOST_LINES)] = Field(
        None, description="Maximum number of lines. Default: 1000; as text/plain, all lines."
    )


class LineAnswer(BaseModel):
    """A line of a log. Printed lines have the level info."""

    number: int
    at: datetime
    level: LevelWord
    stream: Stream
    text: str

    @classmethod
    def of(cls, line: KeptLine) -> "LineAnswer":
        return cls(number=line.number, at=line.at, level=level_word(line.level), stream=line.stream, text=line.text)


class LogAnswer(BaseModel):
    """Log lines of an execution, the oldest first."""

    lines: list[LineAnswer]
    next: int = Field(description="Give it as `after` to read the next lines.")
    cut: int = Field(description="Bytes that were dropped because the log was full.")

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
