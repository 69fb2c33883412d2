"""Pages that crawls found, going out."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field

from ostinato.service.crawled_pages import FoundPages, name_of, starred
from ostinato.shapes.base import RequestBody, Text
from ostinato.store.pages import CrawledPage, WholePage


class CrawledPageQuery(RequestBody):
    """A filter of pages."""

    q: Annotated[Text | None, Field(description='Words, "phrases", -without.')] = None
    job: Annotated[Text | None, Field(description="Only what this job found: its id, or its key.")] = None
    host: Annotated[Text | None, Field(description="Only pages of this host.")] = None
    limit: Annotated[int, Field(ge=1, le=250)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class PageAnswer(BaseModel):
    """A page in a list; `snippet` is where the words stand, as `**word**`."""

    id: str
    job_id: UUID
    url: str
    status: int = Field(description="Of the last answer; 0: there was none.")
    error: str | None = Field(description="Why the last visit brought nothing.")
    content_type: str
    title: str
    description: str
    language: str
    snippet: str
    columns: dict[str, Any] = Field(description="What the extraction rules of the job took out.")
    hash: str
    size: int
    depth: int
    first_seen_at: datetime
    fetched_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, page: CrawledPage) -> "PageAnswer":
        return cls.model_validate(_told(page))


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
        return cls.model_validate(_told(whole.page) | more)


class PageList(BaseModel):
    """Pages, and how many there are altogether (counted up to 10,000)."""

    pages: list[PageAnswer]
    total: int
    limit: int
    offset: int

    @classmethod
    def of(cls, found: FoundPages, asked: CrawledPageQuery) -> "PageList":
        pages = [PageAnswer.of(page) for page in found.pages]
        return cls(pages=pages, total=found.total, limit=asked.limit, offset=asked.offset)


def _told(page: CrawledPage) -> dict[str, Any]:
    told = {name: getattr(page, name) for name in PageAnswer.model_fields}
    return told | {"id": name_of(page), "error": page.error or None, "snippet": starred(page.snippet)}
