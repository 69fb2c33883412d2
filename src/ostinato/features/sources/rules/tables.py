"""Tables of users: the tables that a source may write to, and their names.

Names are checked here and quoted in `rows.py`. No name from a user can mean a table of Ostinato: not by its prefix
(SQLite), nor by its schema (PostgreSQL), nor in other letter case (SQLite does not tell `A` from `a`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ostinato.core.errors import Invalid

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OURS: Final = "ostinato"
TAKEN: Final = frozenset({"jobs", "job_executions", "retries", "scheduled_jobs"})  # the seeds' own
SYSTEM: Final = ("sqlite_", "pg_", "information_schema")

SOURCE_NAME: Final = "source_name"
CREATED_AT: Final = "created_at"
ID: Final = "id"
HASH: Final = "ostinato_hash"
GIVEN: Final = (SOURCE_NAME, HASH)  # columns that are never mapped

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


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a source's records. A row has these columns in order, then the hash of its unique tuple."""

    source: str
    table: str
    columns: tuple[MappedColumn, ...]
    database: str = ""  # where to find its URL, or a URL without secrets; empty: the scheduler's own


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


def check_new_table(target: Target) -> None:
    """Refuse mapped columns that Ostinato gives every table it makes."""
    for column in target.columns:
        if column.name.lower() in (ID, CREATED_AT):
            raise Invalid(
                f"response.fields: the table {target.table} is made with a column {column.name} of its own; "
                f"choose another target, such as record_{column.name}."
            )
