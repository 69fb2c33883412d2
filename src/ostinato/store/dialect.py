"""SQL written once, for two databases.

Statements live in files, each under a line `-- name: claim`; where the two databases must differ there are two
bodies, `-- name: claim [postgres]` and `-- name: claim [sqlite]`. Comment lines below the name say what it is for.

What may stand in a statement besides SQL (never inside quotes):

    :now                      a parameter: a value of Python, see `Tx`
    {jobs} {live} …           our tables (`TABLES`)
    {for_update} {for_update_skip_locked} {for_share}          row locks; also `{for_update of j}`; nothing on SQLite
    {rows: id uuid, fence bigint}     the rows of the batch, as a table `u` with these columns
    {in: ids uuid}            `= ANY (…)` / `IN (…)` over the list parameter `ids`:  `WHERE j.id {in: ids uuid}`
    {greatest} {least}        of several values (none of them null)
    {is_distinct_from} {is_not_distinct_from}                  comparisons for which null equals null
    {uuid} {instant} {bigint} {double} {text} {json}           types of columns; all but {text} also in CAST(:x AS {uuid})
    {strict} {fillfactor 50} {schema} {prefix}                 for migrations; {prefix} begins the names of indexes

An instant is a whole number of microseconds since 1970 (UTC), an id a uuid (16 bytes), JSON plain text. {text} is
compared byte by byte on both. A type in `{rows: …}` and `{in: …}` is one of the six above.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from ostinato.core.errors import InvalidSetting, StoreError

TABLES: Final = frozenset(
    "jobs live executions skips events workers queues outbox meta logs steps declarations".split()
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, ready for its driver."""

    name: str
    sql: str
    about: str
    parameters: tuple[str, ...]  # names of scalars and lists, in the order of $1, $2 …; the batch's columns after them
    lists: Mapping[str, str]  # list parameter → type
    columns: tuple[tuple[str, str], ...]  # of the batch: name, type


class Dialect:
    """How one database spells what both can do."""

    kind: Kind
    schema: str

    def statement(self, text: str, name: str = "") -> Statement:
        """Render one statement."""
        raise NotImplementedError

    def statements(self, text: str) -> dict[str, Statement]:
        """Render a file of named statements, those of this dialect; the whole file is checked."""
        raise NotImplementedError

    def script(self, text: str) -> list[Statement]:
        """Render a migration: statements that end with `;` at the end of a line, without parameters."""
        raise NotImplementedError


def to_micros(instant: datetime) -> int:
    """An aware datetime as microseconds since 1970."""
    raise NotImplementedError


def from_micros(micros: int) -> datetime:
    """Microseconds since 1970 as a datetime in UTC."""
    raise NotImplementedError


def to_uuid(value: UUID | bytes) -> UUID:
    """An id as either database returns it."""
    raise NotImplementedError
