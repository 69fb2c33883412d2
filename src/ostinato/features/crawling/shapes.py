"""Shapes of crawled pages."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from ostinato.features.crawling.search import CrawledPage, WholePage
from ostinato.features.crawling.service import FoundPages, name_of, starred
from ostinato.shapes.base import RequestBody, Text


class CrawledPageQuery(RequestBody):
    """A filter of pages."""

    q: Annotated[Text | None, Field(description='Words, "phrases", -without.')] = None
    job: Annotated[Text | None, Field(description="Only pages found by this job (id or key).")] = None
    host: Annotated[Text | None, Field(description="Only pages of this host.")] = None
    limit: Annotated[int, Field(ge=1, le=250)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class PageAnswer(BaseModel):
    """A page in a list; `snippet` shows the words in their context, as `**word**`."""

    id: str
    job_id: UUID
    url: str
    status: int = Field(description="HTTP status of the last answer; 0 if there was no answer.")
    error: str | None = Field(description="Why the last visit failed.")
    content_type: str
    title: str
    description: str
    language: str
    snippet: str
    columns: dict[str, Any] = Field(description="Values found by the extraction rules of the job.")
    hash: str
    size: int
    depth: int
    first_seen_at: datetime
    fetched_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, page: CrawledPage) -> "PageAnswer":
        return cls.model_validate(_fields(page))


class WholePageAnswer(PageAnswer):
    """A page with its text and links."""

    text: str
    links: list[str]
    etag: str
    last_modified: str

    @classmethod
    def of_whole(cls, whole: WholePage) -> "WholePageAnswer":
        more = {
            "text": whole.text,
            "links": whole.links,
            "etag": whole.etag,
            "last_modified": whole.last_modified,
        }
        return cls.model_validate(_fields(whole.page) | more)


class PageList(BaseModel):
    """Pages, and their total number (counted up to 10,000)."""

    pages: list[PageAnswer]
    total: int
    limit: int
    offset: int

    @classmethod
    def of(cls, found: FoundPages, asked: CrawledPageQuery) -> "PageList":
        pages = [PageAnswer.of(page) for page in found.pages]
        return cls(pages=pages, total=found.total, limit=asked.limit, offset=asked.offset)


def _fields(page: CrawledPage) -> dict[str, Any]:
    fields = {name: getattr(page, name) for name in PageAnswer.model_fields}
    return fields | {"id": name_of(page), "error": page.error or None, "snippet": starred(page.snippet)}
