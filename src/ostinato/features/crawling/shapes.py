"""Shapes of crawled pages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ostinato.core.arguments import arg, whole
from ostinato.features.crawling.search import CrawledPage, WholePage
from ostinato.features.crawling.service import FoundPages, name_of, starred
from ostinato.shapes.answers import JsonObject, described, field_names
from ostinato.shapes.queries import TEXT


@dataclass(frozen=True, kw_only=True)
class CrawledPageQuery:
    """A filter of pages."""

    q: str | None = arg(TEXT, 'Words, "phrases", -without.', None)
    job: str | None = arg(TEXT, "Only pages found by this job (id or key).", None)
    host: str | None = arg(TEXT, "Only pages of this host.", None)
    limit: int = arg(whole(1, 250), "Maximum number of pages.", 20)
    offset: int = arg(whole(0, 10_000), "Number of pages to skip.", 0)


class PageAnswer(JsonObject):
    """A page in a list; `snippet` shows the words in their context, as `**word**`."""

    id: str
    job_id: UUID
    url: str
    status: int = described("HTTP status of the last answer; 0 if there was no answer.")
    error: str | None = described("Why the last visit failed.")
    content_type: str
    title: str
    description: str
    language: str
    snippet: str
    columns: dict[str, Any] = described("Values found by the extraction rules of the job.")
    hash: str
    size: int
    depth: int
    first_seen_at: datetime
    fetched_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, page: CrawledPage) -> "PageAnswer":
        return cls(**_fields(page))


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
        return cls(**_fields(whole.page) | more)


class PageList(JsonObject):
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
    fields = {name: getattr(page, name) for name in field_names(PageAnswer)}
    return fields | {"id": name_of(page), "error": page.error or None, "snippet": starred(page.snippet)}
