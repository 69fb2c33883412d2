"""Shapes of sources. Answers contain the definition as it was written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import Field, WithJsonSchema

from ostinato.core.account import Account
from ostinato.core.arguments import arg, switch, text, whole
from ostinato.core.model import Status
from ostinato.core.schedule import Manual, describe
from ostinato.features.sources.fetch.run import Tried
from ostinato.features.sources.rules.definition import FirstFetch
from ostinato.features.sources.service import Planned, SourceView
from ostinato.features.sources.source_schema import CHANGED, REPLACED, SOURCE
from ostinato.features.sources.states import SourceState
from ostinato.shapes.answers import JsonObject, described
from ostinato.shapes.base import RequestBody, Switch

Written = Annotated[
    dict[str, Any],
    WithJsonSchema(SOURCE),
    Field(
        description="name, url, table, response {dataPath, fields, unique}; schedule, execution, params, headers, "
        "auth, pagination, incremental, write, limits, database, status …",
        examples=[
            {
                "name": "us_gdp",
                "url": "https://api.example.org/v1/series",
                "table": "gdp",
                "schedule": "daily",
                "response": {
                    "dataPath": "data.items",
                    "fields": [{"source": "value", "target": "amount", "type": "number"}],
                },
            }
        ],
    ),
]


Replacing = Annotated[dict[str, Any], WithJsonSchema(REPLACED)]
Changes = Annotated[dict[str, Any], WithJsonSchema(CHANGED)]


@dataclass(frozen=True, kw_only=True)
class DeleteQuery:
    """Options for a deletion."""

    with_data: bool = arg(switch(), "Also delete its stored rows.", False)


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Options for a run."""

    allow_deletions: bool = arg(switch(), "Delete rows beyond limits.maxDeleted.", False)


@dataclass(frozen=True, kw_only=True)
class RecordQuery:
    """The number of records."""

    limit: int = arg(whole(1, 1000), "Maximum number of records.", 20)


class ApplyBody(RequestBody):
    """The desired sources."""

    sources: list[Written] = Field(max_length=1000)
    prune: Switch = Field(False, description="Delete all other sources; their rows stay.")
    dry_run: Switch = Field(False, description="Only return the plan; change nothing.")
    first_run: FirstFetch | None = Field(None, description="The first run of new sources that do not say firstRun.")


CHANGES: Final = ("inserted", "updated", "unchanged", "deleted", "rejected")  # counters of a run


class LastRunAnswer(JsonObject):
    """The newest ended run of a source."""

    at: datetime
    outcome: str
    error: str | None
    items_crawled: int | None = described("Records fetched by the run.")
    items_indexed: int | None = described("Rows inserted or updated.")
    inserted: int | None
    updated: int | None
    unchanged: int | None
    deleted: int | None
    rejected: int | None


class SourceAnswer(JsonObject):
    """A source: its definition, the state of its job, and its retry budget."""

    id: UUID = described("The id of its job.")
    name: str
    status: str = described("A source runs only if its status is active.")
    description: str
    url: str | None
    table: str | None
    schedule: str = described("The schedule in plain English.")
    job_status: Status
    next_run_at: datetime | None
    period_start: datetime | None = described("Start of the current retry period.")
    retry_count: int = described("Failures within the retry period.")
    max_retries: int = described("Number of failures that use up the retry budget.")
    next_retry_at: datetime | None = described("The time of the next retry; null if there is none.")
    last_run: LastRunAnswer | None
    completed: int
    failed: int
    version: int
    flaw: str | None = described("Why the definition cannot be used; null if it can.")
    definition: dict[str, Any]

    @classmethod
    def of(cls, view: SourceView) -> Self:
        facts, definition, source = view.job.facts, view.job.definition, view.source
        planned = source.schedule if source is not None else Manual()
        last = None
        if view.last is not None:
            account = Account.from_json(view.last.account)
            counted = dict(account.counters or ())
            last = LastRunAnswer(
                at=view.last.finished_at, outcome=view.last.outcome, error=view.last.error or None,
                items_crawled=account.items_crawled, items_indexed=account.items_indexed,
                **{name: None if (count := counted.get(name)) is None else int(count) for name in CHANGES},
            )  # fmt: skip
        return cls(
            id=view.job.id, name=view.name, status="unreadable" if source is None else source.status,
            description=definition.description, url=None if source is None else source.url,
            table=None if source is None else source.table,
            schedule=describe(planned, facts.anchor), job_status=view.job.status, next_run_at=view.job.next_run_at,
            period_start=view.period_start, retry_count=view.retry_count,
            max_retries=definition.policies.max_retries, next_retry_at=view.next_retry_at, last_run=last,
            completed=facts.completed, failed=facts.failed + facts.timed_out + facts.lost, version=facts.version,
            flaw=view.flaw or None, definition=dict(view.written),
        )  # fmt: skip


class SourceList(JsonObject):
    """All sources by name."""

    sources: list[SourceAnswer]
    total: int


class PlannedAnswer(JsonObject):
    """The plan for one source."""

    name: str
    change: str = described(enum=["created", "changed", "unchanged", "deleted", "kept"])
    fields: list[str] = described("Fields that differ.")
    next_run_at: datetime | None

    @classmethod
    def of(cls, planned: Planned) -> Self:
        return cls(
            name=planned.name,
            change=planned.change,
            fields=list(planned.fields),
            next_run_at=planned.next_run_at,
        )


class PlanAnswer(JsonObject):
    """The plan, applied or not."""

    plan: list[PlannedAnswer]
    dry_run: bool

    @classmethod
    def of(cls, planned: Sequence[Planned], dry_run: bool) -> Self:
        return cls(plan=[PlannedAnswer.of(each) for each in planned], dry_run=dry_run)


class RejectionAnswer(JsonObject):
    """A rejected record, with the reason."""

    page: int
    record: int
    field: str
    reason: str
    excerpt: str


class TriedAnswer(JsonObject):
    """The first page of a source, fetched and mapped; nothing was stored."""

    columns: list[str]
    rows: list[list[Any]] = described("The first 100 rows.")
    records: int
    distinct: int = described("Number of distinct rows among the accepted records.")
    rejected: int
    rejections: list[RejectionAnswer]
    requests: int
    bytes: int
    more: bool = described("There is a next page.")

    @classmethod
    def of(cls, tried: Tried) -> Self:
        rejections = [
            RejectionAnswer(page=r.page, record=r.record, field=r.field, reason=r.reason, excerpt=r.excerpt)
            for r in tried.rejected[:100]
        ]
        return cls(
            columns=list(tried.columns), rows=[list(row) for row in tried.rows], records=tried.records,
            distinct=tried.distinct, rejected=len(tried.rejected), rejections=rejections,
            requests=tried.requests, bytes=tried.bytes, more=tried.more,
        )  # fmt: skip


class RecordList(JsonObject):
    """The newest rows of a source, by column."""

    records: list[dict[str, Any]]
    table: str
    limit: int


@dataclass(frozen=True, kw_only=True)
class StateQuery:
    """A page of the states of a source."""

    after: str = arg(text(1000), "The last part of the page before.", "")
    limit: int = arg(whole(1, 1000), "Maximum number of parts.", 100)


@dataclass(frozen=True, kw_only=True)
class PartQuery:
    """A part of a source."""

    part: str = arg(text(1000), "A part; left out: all of them.", "")


class StateBody(RequestBody):
    """The state of a source."""

    cursor: str | int | float = Field(description="The value of the cursor from which the next run asks for records.")
    part: str = Field("", max_length=1000, description="The part; empty: the whole source.")


class StateAnswer(JsonObject):
    """The state of a part: how far the source has read."""

    part: str
    cursor: Any
    saved_at: datetime

    @classmethod
    def of(cls, state: SourceState) -> Self:
        return cls(part=state.part, cursor=state.cursor, saved_at=state.saved_at)


class StateList(JsonObject):
    """The states of a source, by part."""

    states: list[StateAnswer]


class StateGone(JsonObject):
    """The answer to a reset."""

    message: str
    forgotten: int


class SourceGone(JsonObject):
    """The answer to a deletion."""

    message: str
    rows_deleted: int
