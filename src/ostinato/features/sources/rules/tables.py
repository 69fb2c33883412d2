"""Tables of users: the tables that a source may write to, their names, and the ways to write to them.

Names are checked here and quoted in `rows.py`. No name from a user can mean a table of Ostinato: not by its prefix
(SQLite), nor by its schema (PostgreSQL), nor in other letter case (SQLite does not tell `A` from `a`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from ostinato.core.errors import Invalid

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OURS: Final = "ostinato"
TAKEN: Final = frozenset({"jobs", "job_executions", "retries", "scheduled_jobs"})  # the seeds' own
SYSTEM: Final = ("sqlite_", "pg_", "information_schema")

SOURCE_NAME: Final = "source_name"
ID: Final = "id"
CREATED_AT: Final = "created_at"
UPDATED_AT: Final = "updated_at"
OWN: Final = (ID, CREATED_AT, UPDATED_AT)  # columns of each table that we make; `ostinato_id` beside a mapped `id`
HASH: Final = "ostinato_hash"  # of the source and the unique tuple
ROW: Final = "ostinato_row"  # of the mapped cells
VALID_FROM: Final = "valid_from"
VALID_TO: Final = "valid_to"
GIVEN: Final = (SOURCE_NAME, HASH, ROW, *(f"{OURS}_{name}" for name in OWN))  # columns that are never mapped

Cell = str | int | float | bool | bytes | None
Row = tuple[Cell, ...]


class ColumnType(StrEnum):
    """The type of a column."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DATE = "date"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A mapped column."""

    name: str
    type: ColumnType = ColumnType.TEXT


class WriteMode(StrEnum):
    """The way in which records are written to a table."""

    INSERT = "insert"  # the first version of each record stays
    UPSERT = "upsert"  # the newest version
    REPLACE = "replace"  # exactly the records of the last complete run
    HISTORY = "history"  # every version, with the time from which it was valid


class Deletions(StrEnum):
    """Handling of records that the API does not have any more."""

    KEEP = "keep"
    ABSENT = "absent"  # a record is deleted if a complete run did not bring it


@dataclass(frozen=True, slots=True)
class Marked:
    """A value by which the API marks a record as deleted."""

    field: str
    equals: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Write:
    """The way to write records. `newest`: a column; older records change nothing."""

    mode: WriteMode = WriteMode.INSERT
    newest: str = ""
    deletions: Deletions | Marked = Deletions.KEEP


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The number of rows that were inserted, updated, left unchanged and deleted, and of marks without a row."""

    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    ignored: int = 0

    def plus(self, other: "RowChanges") -> "RowChanges":
        return RowChanges(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(RowChanges)))


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a source's records.

    A row has these columns in order, then a digest of these cells (None: the record is deleted), then the hash of its
    unique tuple. With `insert` it has no digest.
    """

    source: str
    table: str
    columns: tuple[MappedColumn, ...]
    database: str = ""  # where to find its URL, or a URL without secrets; empty: the scheduler's own
    write: Write = Write()
    key: tuple[str, ...] = ()  # the columns that identify a record, if the definition names them

    @property
    def mode(self) -> WriteMode:
        return self.write.mode

    @property
    def is_staged(self) -> bool:
        """True if a run collects its records, and compares them with the table at its end."""
        return self.mode is WriteMode.REPLACE or self.write.deletions is Deletions.ABSENT


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a target's table: its existence, its owner, and missing columns."""

    exists: bool
    ours: bool
    to_add: tuple[MappedColumn, ...] = ()


def check_table_name(name: str, what: str = "table") -> str:
    """Check the name of a table, `table` or `schema.table`; names of Ostinato's own tables are refused."""
    parts = name.split(".")
    if len(parts) > 2 or not all(NAME.fullmatch(part) for part in parts):
        raise Invalid(
            f"{what} must be a name of letters, digits and _ (at most 63), or schema.table; not {name[:80]!r}."
        )
    for part in parts:
        if part.lower().startswith((OURS, *SYSTEM)):
            raise Invalid(f"{what} must not begin with ostinato, sqlite_ or pg_: {name!r} is not for users.")
    if parts[-1].lower() in TAKEN:
        raise Invalid(f"{what} must not be one of {', '.join(sorted(TAKEN))}: {name!r} is taken.")
    return name


def check_column_name(name: str, what: str) -> str:
    if not NAME.fullmatch(name):
        raise Invalid(f"{what} must be a name of letters, digits and _ (at most 63), not {name[:80]!r}.")
    if name.lower() in GIVEN:
        raise Invalid(f"{what} must not be {name!r}: Ostinato writes that column itself.")
    return name


def missing_columns(target: Target, found: Sequence[str], ours: bool) -> tuple[MappedColumn, ...]:
    """List the mapped columns that a table lacks; Invalid if Ostinato did not make the table, so cannot add them."""
    present = {name.lower() for name in found}
    missing = tuple(column for column in target.columns if column.name.lower() not in present)
    if ours:
        return missing
    lacking = [SOURCE_NAME] if SOURCE_NAME not in present else []
    lacking += [column.name for column in missing]
    if lacking:
        raise Invalid(
            f"table: {target.table} exists and was not made by Ostinato, and it has no column "
            f"{', '.join(lacking)}: add what is missing, or take another table."
        )
    return ()


def check_own_columns(target: Target, found: Sequence[str]) -> None:
    """Refuse mapped columns that an existing table of ours has as columns of its own."""
    present = {name.lower() for name in found}
    for column in target.columns:
        name = column.name.lower()
        own_updated = name != UPDATED_AT or ROW in present  # without row digests, updated_at is a mapped column
        if name in OWN and name in present and f"{OURS}_{name}" not in present and own_updated:
            raise Invalid(
                f"response.fields: the table {target.table} has a column {column.name} of its own; "
                f"choose another target, such as record_{column.name}."
            )
