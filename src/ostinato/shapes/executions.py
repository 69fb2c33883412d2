"""Executions, going out, with their logs and explanations: the names of seed 003 beside ours."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID

from ostinato.core.account import Stop, Stopped
from ostinato.core.arguments import FieldKind, arg, choice, whole
from ostinato.core.model import AskedBy, SkipReason
from ostinato.core.payload import MOST_LINES, level_word
from ostinato.core.read_models import STATES, KeptLine, LogPage, Stream
from ostinato.core.why import Because, Verdict, Why
from ostinato.service.views import ExecutionView
from ostinato.shapes.answers import Answer, JsonObject, Out, described

MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration / MILLISECOND)


def sentence(stop: Stop | None) -> str | None:
    return None if stop is None else stop.sentence


def is_known_dead(stop: Stop | None) -> bool | None:
    return None if stop is None else stop.dead


class ExecutionAnswer(Answer):
    """One attempt, queued, running or ended."""

    id: UUID
    job_id: UUID
    task: str
    execution_number: int
    number: int
    retry_attempt: Annotated[int, Out("attempt")]
    status: str = described(enum=list(STATES))
    outcome: str | None
    asked: AskedBy
    due_at: datetime
    run_at: datetime
    started_at: datetime | None
    completed_at: Annotated[datetime | None, Out("finished_at")]
    duration_ms: Annotated[int | None, Out("duration", milliseconds)]
    items_crawled: int | None
    items_indexed: int | None
    counters: dict[str, int | float] | None
    cpu_time_ms: int | None
    memory_peak_mb: float | None
    stopped: str | None = described(enum=[*Stopped, None])
    exit_code: int | None
    error_kind: str | None
    error_message: Annotated[str | None, Out("error")]
    stack_trace: Annotated[str | None, Out("traceback")]
    result: Any
    progress: Any
    metadata: Annotated[dict[str, Any], Out(convert=lambda found: dict(found or {}))]
    waits_for: str | None
    reason: str | None = described("Why it is queued, in a sentence.")
    stop: Annotated[str | None, Out(convert=sentence)] = described("How strong the stop of the run was, in a sentence.")
    known_dead: Annotated[bool | None, Out("stop", is_known_dead)] = described(
        "Whether a stopped run is known to have ended; null if nothing stopped it."
    )
    cancel_asked_at: datetime | None
    worker: Annotated[UUID | None, Out("worker_id")]
    version: int | None
    traceparent: str | None = described("The span of the run, if it was traced (W3C Trace Context).")
    key: str
    step: Annotated[str | None, Out(convert=lambda step: step or None)] = described(
        "The node of a workflow that it is a step of."
    )


class ExecutionList(JsonObject):
    """A page of executions, the newest first."""

    executions: list[ExecutionAnswer]
    total: int
    limit: int
    offset: int
    cursor: str | None


class SkipAnswer(Answer):
    """Due times that were not run, and why."""

    id: UUID
    job_id: UUID
    reason: SkipReason
    first_due_at: datetime
    last_due_at: datetime
    count: int
    recorded_at: datetime
    in_the_way: UUID | None


class SkipList(JsonObject):
    """The due times of a job that were not run, the newest first."""

    skips: list[SkipAnswer]
    skipped: int  # how many due times in all
    limit: int


# -- Shapes of the explanation why a job ran, ran late or did not run


class CauseAnswer(Answer):
    """A reason, with its times and its caller."""

    because: Because
    since: datetime | None
    until: datetime | None
    by: str
    execution_id: UUID | None


class WhyAnswer(JsonObject):
    """Explanation of the occurrence at or before an instant, as data and as sentences."""

    at: datetime
    verdict: Verdict
    due_at: datetime | None
    number: int | None
    causes: list[CauseAnswer]
    sentences: list[str]
    next_run_at: datetime | None
    executions: list[ExecutionAnswer]
    skip: SkipAnswer | None

    @classmethod
    def of(cls, why: Why) -> "WhyAnswer":
        return cls(
            at=why.at, verdict=why.verdict, due_at=why.due_at, number=why.number,
            causes=[CauseAnswer.of(cause) for cause in why.causes], sentences=list(why.sentences),
            next_run_at=why.next_run_at,
            executions=[ExecutionAnswer.of(ExecutionView.of(row)) for row in why.attempts],
            skip=None if why.skip is None else SkipAnswer.of(why.skip),
        )  # fmt: skip


# -- Shapes of execution logs: JSON and text lines

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
    next: int = described("Give it as `after` to read the next lines.")
    cut: int = described("Bytes that were dropped because the log was full.")

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
