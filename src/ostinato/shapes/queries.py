"""Shapes of query parameters: filters and pages. A misspelt filter is refused, because it would match everything."""

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from ostinato.core.errors import Invalid
from ostinato.core.model import Status
from ostinato.service.paging import FURTHEST, PAGE_LIMIT
from ostinato.shapes.base import Instant, RequestBody
from ostinato.shapes.previews import MOST_TIMES
from ostinato.store.search import SORTS, STATES, JobFilter


def _several(given: object) -> object:
    """Split a list: `status=failed&status=paused` and `status=failed,paused` mean the same."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list | tuple):
        return given
    return [word.strip() for text in given for word in str(text).split(",")]


State = Annotated[str, WithJsonSchema({"type": "string", "enum": [*STATES]})]


class PageQuery(RequestBody):
    """A page of a list."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT)] = 50
    offset: Annotated[int, Field(ge=0, le=FURTHEST)] = 0
    cursor: str | None = Field(None, description="The cursor of the page before; use it instead of offset.")


class Chosen(RequestBody):
    """A filter of jobs: all given conditions hold."""

    status: Annotated[list[Status], BeforeValidator(_several)] = Field([])
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    search: str | None = Field(None, description="Text in the name, task, key or description.")
    due_before: Instant | None = None
    due_after: Instant | None = None
    app: str | None = None

    def filter(self) -> JobFilter:
        return JobFilter(
            statuses=frozenset(self.status), task=self.task, queue=self.queue, tag=self.tag, text=self.search,
            due_before=self.due_before, due_after=self.due_after, app=self.app,
        )  # fmt: skip


class JobQuery(Chosen, PageQuery):
    """A page of jobs."""

    sort: str = Field(
        "-created_at",
        description="created_at, updated_at, name, next_run_at, priority or status; - sorts in descending order.",
        json_schema_extra={"enum": [word for by in SORTS for word in (by, f"-{by}")]},
    )


class ExecutionQuery(PageQuery):
    """A page of executions."""

    status: Annotated[list[State], BeforeValidator(_several)] = Field([], description=", ".join(STATES))
    task: str | None = None


class AllExecutionsQuery(ExecutionQuery):
    """A page of the executions of all jobs or of one job."""

    job: str | None = Field(None, description="The id of a job, or its key.")


class MakeQuery(RequestBody):
    """Options for creating a job."""

    allow_unknown: bool = Field(
        False, description="Accept a task that no known worker has; the job waits for a worker."
    )


class NextQuery(RequestBody):
    """The number of due times."""

    n: Annotated[int, Field(ge=1, le=MOST_TIMES)] = 10


class SkipQuery(RequestBody):
    """The number of skips."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT)] = 50


class WhyQuery(RequestBody):
    """The occurrence to explain."""

    at: Instant | None = Field(None, description="The occurrence at or before this instant (default: now).")


class CancelQuery(RequestBody):
    """Options for stopping an execution."""

    force: bool = Field(False, description="End the record of a run that does not stop; its late result is rejected.")


def refuse_both(page: PageQuery) -> None:
    """Refuse a cursor together with an offset, because both set the start of the page."""
    if page.cursor is not None and page.offset:
        raise Invalid("cursor and offset say different things: use one of them.")
