"""The definition of a source, after parsing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from ostinato.core.auth import Auth
from ostinato.core.schedule import Schedule
from ostinato.features.sources.rules.requests import Method, ResponseAction, SourceBody
from ostinato.features.sources.rules.tables import Cell, ColumnType, MappedColumn, Marked, Target, Write, WriteMode

ACTIVE = "active"
ROOT = "."


class PagingKind(StrEnum):
    """The pagination of an API."""

    NONE = "none"
    PAGE = "page"  # a page number
    OFFSET = "offset"  # number of records to leave out
    CURSOR = "cursor"  # a token in each answer
    LINK_HEADER = "link_header"  # `Link: <…>; rel="next"`
    NEXT_URL = "next_url"  # a URL in each answer


class StopAfter(StrEnum):
    """The page after which an API has no more."""

    SHORT_PAGE = "short_page"  # with fewer records than the limit
    EMPTY_PAGE = "empty_page"


@dataclass(frozen=True, slots=True)
class Paging:
    """The parameters of pagination. Paths start at the root of the answer."""

    kind: PagingKind = PagingKind.NONE
    param: str = ""  # of the page, the offset or the cursor
    limit_param: str = ""
    limit: int | None = None
    start: int = 1  # the number of the first page
    has_more_path: str = ""
    next_path: str = ""  # where the next cursor or URL stands
    stop_when: str = ""  # a path: its true value ends the pages
    stop_after: StopAfter | None = None
    hosts: tuple[str, ...] = ()  # other hosts on which the next page may lie


@dataclass(frozen=True, slots=True)
class MappedField:
    """One value of a record, and its target column."""

    source: str
    column: MappedColumn


class WhenMissing(StrEnum):
    """Handling of an answer without a value at `dataPath`: a failure, or a page without records."""

    FAIL = "fail"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Response:
    """The reading of an answer."""

    data_path: str
    fields: tuple[MappedField, ...]
    unique: tuple[str, ...]  # target columns: the tuple that is hashed
    key: tuple[str, ...] = ()  # the same, if the definition names them
    whole_key: bool = False  # a record that lacks a part of the key is rejected
    when_missing: WhenMissing | None = None  # None: a failure until the source has stored a record


class Order(StrEnum):
    """The order in which an API sorts its records by the cursor."""

    NONE = "none"
    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class Incremental:
    """Settings to fetch only new records: from the state of the source on, less an overlap.

    `by_rows`: there is no state; the greatest stored value of the column is asked for.
    """

    param: str  # the place of the lower bound: `since`, `header:X-Since`
    column: MappedColumn
    overlap: timedelta | float | None = None
    start: str = ""  # the first value by rows, as it is written
    by_rows: bool = True
    start_cell: Cell = None
    end_cell: Cell = None
    end_param: str = ""
    format: str = ""  # of times in requests
    window: timedelta | None = None
    split_at: int | None = None
    order: Order = Order.NONE


class FirstFetch(StrEnum):
    """The time of the first run."""

    NOW = "now"
    NEXT = "next"  # at the first time of the schedule
    FROM_ROWS = "from_rows"  # when the schedule is due after the newest row of the source; at once if that has passed


class OnLimit(StrEnum):
    """Handling of a run that reaches a limit while there is more."""

    FAIL = "fail"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a run: pages, bytes, and records that may be rejected."""

    pages: int = 1000
    bytes: int = 50_000_000
    records: int = 1_000_000
    rejected: float = 0.1  # the share of the records
    deleted: float = 0.5  # the share of the table's rows that the end of a run may delete
    then: OnLimit = OnLimit.FAIL


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Timeout and retries of a run."""

    timeout: timedelta = timedelta(seconds=300)
    max_retries: int = 5
    reset_period: timedelta = timedelta(days=1)
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A declared HTTP API to fetch into a table."""

    name: str
    url: str
    table: str
    response: Response
    schedule: Schedule
    status: str = ACTIVE
    description: str = ""
    database: str = ""
    execution: RunSettings = RunSettings()
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    method: Method = Method.GET
    body: SourceBody | None = None
    is_graphql: bool = False  # the request fails if its answer has errors
    actions: tuple[ResponseAction, ...] = ()
    auth: Auth | None = None
    paging: Paging = Paging()
    incremental: Incremental | None = None
    limits: Limits = Limits()
    write: Write = Write()
    first_run: FirstFetch = FirstFetch.NOW
    queue: str = "default"
    priority: int = 5
    tags: tuple[str, ...] = ()
    owner: str = ""
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)  # as the user wrote it

    @property
    def active(self) -> bool:
        """True if it runs."""
        return self.status == ACTIVE

    @property
    def target(self) -> Target:
        columns = tuple(each.column for each in self.response.fields)
        return Target(self.name, self.table, columns, self.database, self.write, self.response.key)

    @property
    def mark(self) -> Marked | None:
        """The value by which the API marks a record as deleted."""
        deletions = self.write.deletions
        return deletions if isinstance(deletions, Marked) else None

    @property
    def deletes_marked(self) -> bool:
        """True if a marked record deletes its row; otherwise it is left out."""
        return self.mark is not None and self.write.mode in (WriteMode.UPSERT, WriteMode.HISTORY)


__all__ = [
    "ACTIVE",
    "ROOT",
    "ColumnType",
    "FirstFetch",
    "Incremental",
    "Limits",
    "MappedColumn",
    "MappedField",
    "OnLimit",
    "Order",
    "Paging",
    "PagingKind",
    "Response",
    "RunSettings",
    "Source",
    "StopAfter",
    "WhenMissing",
]
