"""Rows of values: how each value of core/model.py is stored in its table.

A `Shape` maps a dataclass to a row with one column per field, in the order of the fields. Drivers return ids as bytes
or UUID and instants as microseconds (see database.py); parameters are converted by the transaction.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from operator import attrgetter
from struct import Struct
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints
from uuid import UUID

from ostinato.core.encoding import policies_of, policies_text, schedule_of, schedule_text
from ostinato.core.model import EPOCH, Change, Definition, Event, Execution, Facts, Job, Live, Skip, uuid_of
from ostinato.core.policy import Policies
from ostinato.core.read_models import LastRun, QueueRow, WorkerRow
from ostinato.core.schedule import Cron, Every, Manual, Once, Schedule
from ostinato.store.columns import columns_of

# -- Cells: instants and ids as the databases store them. Both store instants as whole microseconds since 1970; SQLite
# stores ids as 16 bytes.

EXACT_AS_FLOAT: Final = 2**52  # microseconds (year 2112): below, fromtimestamp of a float rounds correctly


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since 1970."""
    since = instant - EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(4096)  # rows queued or due together share their instants
def from_micros(micros: int) -> datetime:
    """Return microseconds since 1970 as a datetime in UTC."""
    if 0 <= micros < EXACT_AS_FLOAT:
        return datetime.fromtimestamp(micros / 1e6, UTC)
    return EPOCH + timedelta(microseconds=micros)


def to_uuid(value: UUID | bytes) -> UUID:
    """Return an id from either database as a UUID."""
    if type(value) is not bytes:
        return value  # type: ignore[return-value]
    return uuid_of(int.from_bytes(value, "big"))


def to_bytes(value: UUID | bytes) -> bytes:
    """Return an id from either database as bytes: quick to compare and to look up."""
    return value if type(value) is bytes else value.int.to_bytes(16, "big")  # type: ignore[union-attr]


# -- Rows of values: how each value of core/model.py is stored in its table

T = TypeVar("T")
Row = Sequence[Any]
Reader = Callable[[Any], Any]


class Shape(Generic[T]):
    """Reader and writer of one kind of value as a row.

    `of` is compiled from the fields, as dataclasses do with their own methods. That costs a third of a loop over the
    columns, and it runs several times for every execution.
    """

    def __init__(self, kind: type[T], only: Sequence[str] | None = None, given: Sequence[str] = ()) -> None:
        """`given` fields are not read from the row; they are the next arguments of `of`."""
        self.columns = tuple(only or [field.name for field in fields(kind)])  # type: ignore[arg-type]
        hints = get_type_hints(kind)
        self.row: Callable[[T], tuple[Any, ...]] = attrgetter(*self.columns)
        readers = {name: _reader(hints[name]) for name in self.columns if name not in given}
        self.of: Callable[..., T] = _compiled(kind, self.columns, readers)


def _compiled(kind: type[T], columns: Sequence[str], readers: Mapping[str, Reader | None]) -> Callable[..., T]:
    known: dict[str, Any] = {f"read_{name}": read for name, read in readers.items()} | {"_make": kind}
    lines, earlier = [f"({', '.join(readers)},) = row"], None
    for name, read in readers.items():
        if read is None:
            continue
        cell = f"None if {name} is None else read_{name}({name})"
        if read is from_micros:  # often the same instant as the last one
            lines.append(f"cell_{name} = {name}")
            cell = f"{earlier} if {name} == cell_{earlier} else {cell}" if earlier else cell
            earlier = name
        lines.append(f"{name} = {cell}")
    lines.append(f"return _make({', '.join(columns)})")
    given = [name for name in columns if name not in readers]
    exec(f"def of({', '.join(['row', *given])}):\n    " + "\n    ".join(lines), known)
    return known["of"]  # type: ignore[no-any-return]


def _tags(text: str) -> tuple[str, ...]:
    return () if text == NO_TAGS else tuple(json.loads(text))


NO_TAGS: Final = "[]"
ENCODED: Final[Mapping[Any, Reader]] = {Schedule: schedule_of, Policies: policies_of, tuple[str, ...]: _tags}


def _reader(hint: Any) -> Reader | None:
    kinds = [kind for kind in (*get_args(hint), hint) if isinstance(kind, type) and kind is not type(None)]
    if UUID in kinds:
        return to_uuid
    if datetime in kinds:
        return from_micros
    if hint in ENCODED:
        return ENCODED[hint]
    for kind in kinds:
        if issubclass(kind, StrEnum):
            return kind._value2member_map_.__getitem__
    return None


FACTS: Final = Shape(Facts)
DEFINITION: Final = Shape(Definition)
LIVE: Final = Shape(Live)
GIVEN: Final = ("waits_for", "worker_id", "started_at", "progress")  # the claim itself knows these
STARTED: Final = Shape(Live, given=GIVEN)
EXECUTION: Final = Shape(Execution)
EVENT: Final = Shape(Event)
SKIP: Final = Shape(Skip, [field.name for field in fields(Skip) if field.name != "follows"])

UPDATED_FACTS: Final = attrgetter(*[name for name in FACTS.columns if name != "created_at"])
USUAL: Final = (
    "next_due_at", "computed_at", "last_due_at", "last_number", "last_execution_number", "repeats_done", "completed",
    "ended_at", "ended_as",
)  # fmt: skip
USUAL_FACTS: Final = attrgetter(*USUAL)
OTHER_FACTS: Final = attrgetter(*[name for name in FACTS.columns if name not in USUAL])
# Columns that never change while a row is live.
IDENTITY: Final = ("job_id", "number", "step", "attempt", "execution_number")
UPDATED_LIVE: Final = attrgetter(*[name for name in LIVE.columns if name not in IDENTITY])

KINDS: Final[dict[type[Schedule], str]] = {Every: "every", Cron: "cron", Once: "once", Manual: "manual"}


LAST_RUN: Final = Shape(LastRun)
WORKER: Final = Shape(WorkerRow)
QUEUE: Final = Shape(QueueRow)


def facts_of(row: Row) -> tuple[UUID, Facts]:
    """Return an id and the facts after it."""
    return to_uuid(row[0]), FACTS.of(row[1:])


def definition_of(row: Row) -> tuple[bytes, int, Definition]:
    """Return an id as it is stored, a version and the definition."""
    return row[0], row[1], DEFINITION.of(row[2:])


def written(definition: Definition) -> dict[str, Any]:
    """Return a definition column by column."""
    cells = dict(zip(DEFINITION.columns, DEFINITION.row(definition), strict=True))
    return cells | {
        "kind": KINDS[type(definition.schedule)],
        "schedule": schedule_text(definition.schedule),
        "policies": policies_text(definition.policies),
        "tags": json.dumps(definition.tags),
    }


def new_job(job: Job) -> tuple[Any, ...]:
    """Return a whole job, for `insert_jobs`."""
    cells = written(job.definition)
    definition = (cells[name] for name in columns_of("definition"))
    return (job.id, held_key(job), *definition, *FACTS.row(job.facts))


def shared_by_jobs(job: Job) -> dict[str, Any]:
    """Return the columns shared by jobs that differ only in id and args, for `insert_alike_jobs`."""
    cells = written(job.definition) | dict(zip(FACTS.columns, FACTS.row(job.facts), strict=True))
    return {name: cell for name, cell in cells.items() if name != "args"} | {"held_key": held_key(job)}


def shared_by_lives(live: Live) -> dict[str, Any]:
    """Return the columns shared by their live rows, for `insert_alike_live`."""
    cells = zip(LIVE.columns, LIVE.row(live), strict=True)
    return {name: cell for name, cell in cells if name not in ("id", "job_id")}


def changed_facts(change: Change) -> tuple[Any, ...]:
    """Return the row that `update_facts` writes."""
    return (change.job.id, held_key(change.job), *UPDATED_FACTS(change.job.facts))


def usual_facts(change: Change) -> tuple[Any, ...]:
    """Return the row that `update_usual_facts` writes."""
    return (change.job.id, held_key(change.job), *USUAL_FACTS(change.job.facts))


def held_key(job: Job) -> str | None:
    """Return the key of a job while it holds it: until it has ended."""
    facts = job.facts
    free = facts.ended_at or facts.cancelled_at or facts.deleted_at
    return None if free else job.definition.key


# -- Values in PostgreSQL's binary form, each behind its length: for arrays and for COPY

NULL: Final = Struct("!i").pack(-1)
LENGTH: Final = Struct("!i").pack

bigint: Final = partial(Struct("!iq").pack, 8)
double: Final = partial(Struct("!id").pack, 8)


def text(value: str) -> bytes:
    encoded = value.encode()
    return LENGTH(len(encoded)) + encoded


def raw(value: bytes) -> bytes:
    return LENGTH(len(value)) + value
