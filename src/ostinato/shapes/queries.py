"""Query parameters: filters and pages. A misspelt filter is refused, because it would match everything.

A query is an args type (core/arguments.py), so that HTTP and the command line read it by the same declaration.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar
from uuid import UUID

from ostinato.core.arguments import FieldKind, Flaw, arg, choice, many, of, shown, switch, text, whole
from ostinato.core.errors import Invalid, WrongArgument
from ostinato.core.model import Status
from ostinato.core.read_models import SORTS, STATES, JobFilter
from ostinato.core.schedule import Cron, DueTimes, Schedule, describe, to_json
from ostinato.service.paging import FURTHEST, PAGE_LIMIT
from ostinato.shapes.answers import JsonObject
from ostinato.shapes.openapi import INSTANT, read_instant

# -- Shapes of due times

MOST_TIMES: Final = 1000


class TimesAnswer(JsonObject):
    """The next due times of a schedule. `complete` is false if the search stopped early because it took too long."""

    schedule: dict[str, str | bool]
    description: str
    timezone: str | None
    times: list[datetime]
    complete: bool

    @classmethod
    def of(cls, schedule: Schedule, found: DueTimes) -> "TimesAnswer":
        zone = schedule.timezone if isinstance(schedule, Cron) else None
        return cls(
            schedule=to_json(schedule),
            description=describe(schedule),
            timezone=zone,
            times=found.times,
            complete=found.complete,
        )


# -- Query parameters: filters and pages. A misspelt filter is refused, because it would match everything

E = TypeVar("E", bound=StrEnum)
Q = TypeVar("Q")

WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
YES: Final = ("true", "1", "yes", "on")
NO: Final = ("false", "0", "no", "off")
MOST_WORDS: Final = 50
SORT_WORDS: Final = tuple(word for by in SORTS for word in (by, f"-{by}"))


def read_query(kind: type[Q], given: Mapping[str, Any]) -> Q:
    """Read query parameters, as text from HTTP or as values from a command; WrongArgument names the wrong one."""
    kinds = {each.name: each.metadata["kind"] for each in fields(kind)}  # type: ignore[arg-type]
    values = {name: _value(kinds[name], value) if name in kinds else value for name, value in given.items()}
    try:
        return of(kind).read(values)
    except Flaw as flaw:
        raise WrongArgument(flaw.path, f"{flaw.path} {flaw.rest}") from None


def pairs_of(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Join the parameters of a request by name; one that is repeated is a list."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[name] = value if name not in found else [*_listed(found[name]), value]
    return found


def parameters(kind: type[Any]) -> list[dict[str, Any]]:
    """Describe the parameters for the OpenAPI document."""
    return [_parameter(name, shape) for name, shape in of(kind).schema["properties"].items()]


def _parameter(name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    parameter = {"name": name, "in": "query", "required": "default" not in described}
    shape = {key: value for key, value in described.items() if key != "description" and value not in (None, ())}
    return {**parameter, "description": described["description"], "schema": shape}


def _value(kind: FieldKind[Any], value: Any) -> Any:
    """Read the text of a parameter as the type of its field."""
    wanted = kind.schema.get("type")
    if wanted == "array":
        return [_value(FieldKind(kind.schema["items"], kind.read), each) for each in _listed(value)]
    if isinstance(value, list):
        value = value[-1] if value else None
    if wanted == "integer" and isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    if wanted == "boolean" and isinstance(value, str):
        return True if value.lower() in YES else False if value.lower() in NO else value
    return value


def _listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]


# -- kinds


def words(*choices: str) -> FieldKind[tuple[str, ...]]:
    """Accept a list of words: `status=failed&status=paused` and `status=failed,paused` mean the same."""
    listed = many(choice(*choices), MOST_WORDS)

    def read(value: Any) -> tuple[str, ...]:
        return listed.read([word.strip() for each in _listed(value) for word in str(each).split(",")])

    return FieldKind({"type": "array", "items": {"type": "string", "enum": list(choices)}}, read)


def like(pattern: str, **more: Any) -> FieldKind[str]:
    """Accept text that the service checks by this pattern."""
    return FieldKind({"type": "string", "pattern": pattern, **more}, str)


def member(kind: type[E]) -> FieldKind[E]:
    """Accept a word of an enumeration."""
    one = choice(*(each.value for each in kind))
    return FieldKind(one.schema, lambda value: kind(one.read(value)))


def _instant(value: Any) -> datetime:
    try:
        return read_instant(value)
    except ValueError as error:
        raise Flaw(f"cannot be read. {error}") from None


def _id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        raise Flaw(f"must be a UUID, not {shown(value)}.") from None


AT: Final = FieldKind(INSTANT, _instant)
ID: Final = FieldKind({"type": "string", "format": "uuid"}, _id)
TEXT: Final = text(10_000)
JOB: Final = text(200)


# -- queries


@dataclass(frozen=True, kw_only=True)
class _PageQuery:
    """A page of a list."""

    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of entries.", 50)
    offset: int = arg(whole(0, FURTHEST), "Number of entries to skip.", 0)
    cursor: str | None = arg(TEXT, "The cursor of the page before; use it instead of offset.", None)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A filter of jobs: all given conditions hold."""

    status: tuple[str, ...] = arg(words(*Status), "Only these statuses.", ())
    task: str | None = arg(TEXT, "Only this task.", None)
    queue: str | None = arg(TEXT, "Only this queue.", None)
    tag: str | None = arg(TEXT, "Only jobs with this tag.", None)
    search: str | None = arg(TEXT, "Text in the name, task, key or description.", None)
    due_before: datetime | None = arg(AT, "Only jobs due before this instant.", None)
    due_after: datetime | None = arg(AT, "Only jobs due at or after this instant.", None)
    app: str | None = arg(TEXT, "Only jobs of this app.", None)

    def filter(self) -> JobFilter:
        return JobFilter(
            statuses=frozenset(map(Status, self.status)), task=self.task, queue=self.queue, tag=self.tag,
            text=self.search, due_before=self.due_before, due_after=self.due_after, app=self.app,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JobQuery(Chosen, _PageQuery):
    """A page of jobs."""

    sort: str = arg(
        FieldKind({"type": "string", "enum": list(SORT_WORDS)}, TEXT.read),
        "created_at, updated_at, name, next_run_at, priority or status; - sorts in descending order.",
        "-created_at",
    )


@dataclass(frozen=True, kw_only=True)
class ExecutionQuery(_PageQuery):
    """A page of executions."""

    status: tuple[str, ...] = arg(words(*STATES), ", ".join(STATES), ())
    task: str | None = arg(TEXT, "Only this task.", None)


@dataclass(frozen=True, kw_only=True)
class AllExecutionsQuery(ExecutionQuery):
    """A page of the executions of all jobs or of one job."""

    job: str | None = arg(TEXT, "The id of a job, or its key.", None)


@dataclass(frozen=True, kw_only=True)
class MakeQuery:
    """Options for creating a job."""

    allow_unknown: bool = arg(switch(), "Accept a task that no known worker has; the job waits for a worker.", False)


@dataclass(frozen=True, kw_only=True)
class NextQuery:
    """The number of due times."""

    n: int = arg(whole(1, MOST_TIMES), "Number of due times.", 10)


@dataclass(frozen=True, kw_only=True)
class SkipQuery:
    """The number of skips."""

    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of skips.", 50)


@dataclass(frozen=True, kw_only=True)
class WhyQuery:
    """The occurrence to explain."""

    at: datetime | None = arg(AT, "The occurrence at or before this instant (default: now).", None)


@dataclass(frozen=True, kw_only=True)
class RetryQuery:
    """The beginning of a retry."""

    from_start: bool = arg(switch(), "Run a workflow from its start, not from its failed steps.", False)


@dataclass(frozen=True, kw_only=True)
class CancelQuery:
    """Options for stopping an execution."""

    force: bool = arg(switch(), "End the record of a run that does not stop; its late result is rejected.", False)


@dataclass(frozen=True, kw_only=True)
class KeyQuery:
    """A page of API keys."""

    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of keys.", 50)
    before: UUID | None = arg(ID, "The last key of the page before.", None)


@dataclass(frozen=True, kw_only=True)
class EventQuery:
    """A list of events."""

    job: str | None = arg(JOB, "The id or key of a job.", None)
    kind: tuple[str, ...] = arg(
        many(text(60, empty=False), MOST_WORDS), "Only these kinds; job.* matches all kinds with this prefix.", ()
    )
    cursor: str | None = arg(text(4000), "Only events after this cursor.", None)
    limit: int = arg(whole(1, PAGE_LIMIT), "Maximum number of events without a cursor.", 50)


def refuse_both(page: _PageQuery) -> None:
    """Refuse a cursor together with an offset, because both set the start of the page."""
    if page.cursor is not None and page.offset:
        raise Invalid("cursor and offset say different things: use one of them.")
