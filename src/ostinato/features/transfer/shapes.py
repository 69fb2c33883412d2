"""Shapes of imports: jobs of other systems as they come in, and the answers about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError

from ostinato.core.arguments import FieldKind, Flaw, arg, whole
from ostinato.core.errors import Invalid, OstinatoError
from ostinato.core.lifecycle import FormerState, PastRun
from ostinato.core.model import Definition, Ending
from ostinato.core.outcome import OutcomeKind
from ostinato.core.payload import encode_result
from ostinato.endpoints.table import Ask
from ostinato.features.sources.rules import definition_of, read_source
from ostinato.features.transfer.rules.found import ImportRecord
from ostinato.features.transfer.service import ImportedJob, Undone, WantedJob
from ostinato.shapes.answers import JsonObject, refused
from ostinato.shapes.base import Instant, RequestBody, Switch, Text, Whole
from ostinato.shapes.job_body import JobBody, new_definition

MOST: Final = 500  # jobs in one request
LONGEST_TEXT: Final = 20_000  # characters of an error or a traceback

Count = Annotated[Whole, Field(ge=0, le=1_000_000_000)]
Name = Annotated[Text, Field(min_length=1, max_length=200)]


class RunWords(RequestBody):
    """A run that ended in the other system."""

    started_at: Instant
    finished_at: Instant
    outcome: OutcomeKind
    attempt: Count = 0
    execution_number: Count | None = None
    result: Any = None
    error: Text | None = None
    traceback: Text | None = None
    account: dict[str, Any] | None = None

    def past(self) -> PastRun:
        account = None if self.account is None else encode_result(self.account).text
        return PastRun(
            started_at=self.started_at, finished_at=self.finished_at, outcome=self.outcome, attempt=self.attempt,
            execution_number=self.execution_number,
            result=None if self.result is None else encode_result(self.result).text, error=_text(self.error),
            traceback=_text(self.traceback), account=account,
        )  # fmt: skip


class StateWords(RequestBody):
    """The state of a job in the other system."""

    created_at: Instant | None = None
    next_at: Instant | None = None
    last_at: Instant | None = None
    paused_at: Instant | None = None
    cancelled_at: Instant | None = None
    ended_at: Instant | None = None
    ended_as: Ending | None = None
    counted: dict[OutcomeKind, Count] = Field(default_factory=dict)
    repeats_done: Count = 0
    failures: Count = 0
    period_start: Instant | None = None
    period_failures: Count = 0
    runs: list[RunWords] = Field(default_factory=list)

    def former(self) -> FormerState:
        said = {name: getattr(self, name) for name in self.model_fields_set - {"runs"}}
        return FormerState(**said, runs=tuple(run.past() for run in self.runs))


class WantedWords(RequestBody):
    """A job to be imported: `job` in the words of `POST /jobs`, or `source` in those of `source apply`."""

    ref: Name
    id: UUID | None = None
    job: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    state: StateWords = StateWords()


class ImportBody(RequestBody):
    """Jobs to be imported, at most 500 at once."""

    kind: Name
    source: Annotated[Text, Field(max_length=1000)] = ""
    dry_run: Switch = False
    jobs: list[dict[str, Any]] = Field(max_length=MOST)

    def wanted(self, ask: Ask) -> list[WantedJob]:
        """Read each job; one that cannot be read is an error in its place."""
        return [_wanted(each, ask) for each in self.jobs]


JOB: Final[TypeAdapter[JobBody]] = TypeAdapter(JobBody)
WANTED: Final[TypeAdapter[WantedWords]] = TypeAdapter(WantedWords)


def _wanted(given: Mapping[str, Any], ask: Ask) -> WantedJob:
    ref = str(given.get("ref", ""))[:200]
    try:
        words = WANTED.validate_python(given)
        return WantedJob(words.ref, words.id, _definition(words, ask), words.state.former())
    except ValidationError as error:
        return WantedJob(ref, None, Invalid(refused(error.errors()).detail), FormerState())
    except OstinatoError as error:
        return WantedJob(ref, None, error, FormerState())


def _definition(words: WantedWords, ask: Ask) -> Definition:
    if words.source is not None:
        permits = ask.service.known.permits
        return definition_of(read_source(words.source, ask.timezone, egress=permits.egress), ask.service.app)
    if words.job is None:
        raise Invalid("An imported job has a job or a source.")
    return new_definition(JOB.validate_python(words.job), ask.here)


def _text(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "\N{REPLACEMENT CHARACTER}")[:LONGEST_TEXT]


# -- answers


class TakenAnswer(JsonObject):
    """One job of an import. `made` is false for a job that was here before."""

    ref: str
    job: UUID | None
    made: bool
    refused: str | None
    next: list[datetime]
    schedule_description: str
    knows_task: bool

    @classmethod
    def of(cls, taken: ImportedJob) -> Self:
        return cls(
            ref=taken.ref, job=None if taken.job is None else taken.job.id, made=taken.made, refused=taken.refused,
            next=list(taken.next), schedule_description=taken.described, knows_task=taken.knows_task,
        )  # fmt: skip


class TakenList(JsonObject):
    """The jobs of a request, in its order."""

    name: str
    jobs: list[TakenAnswer]


class ImportAnswer(JsonObject):
    """The record of an import, and how many of its jobs are still here."""

    name: str
    kind: str
    source: str
    jobs: int
    jobs_here: int
    at: datetime
    by: str
    undone_at: datetime | None

    @classmethod
    def of(cls, row: ImportRecord, here: int) -> Self:
        return cls(
            name=row.name, kind=row.kind, source=row.source, jobs=row.jobs, jobs_here=here, at=row.at, by=row.by,
            undone_at=row.undone_at,
        )  # fmt: skip


class ImportList(JsonObject):
    """The newest imports."""

    imports: list[ImportAnswer]


class UndoneAnswer(JsonObject):
    """A step of an undo; ask again with `after` until it is null."""

    name: str
    deleted: list[UUID]
    spared: list[UUID]
    after: UUID | None

    @classmethod
    def of(cls, name: str, undone: Undone) -> Self:
        return cls(name=name, deleted=list(undone.deleted), spared=list(undone.spared), after=undone.last)


def _uuid(value: object) -> UUID:
    try:
        return UUID(str(value))
    except ValueError:
        raise Flaw("is a UUID.") from None


@dataclass(frozen=True, kw_only=True)
class UndoQuery:
    """The place of an undo."""

    after: UUID | None = arg(
        FieldKind({"type": "string", "format": "uuid"}, _uuid), "The `after` of the last step.", None
    )
    limit: int = arg(whole(1, MOST), "Maximum number of jobs.", MOST)
