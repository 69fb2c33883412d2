"""Questions about the pages that crawls found."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ostinato.core.errors import Invalid, NotFound
from ostinato.features.crawling.search import (
    COUNTED,
    FOUND,
    FOUND_ENDS,
    CrawledPage,
    CrawledPages,
    PageFilter,
    WholePage,
)
from ostinato.service import Service
from ostinato.service.paging import check_page, check_words
from ostinato.service.views import Ref

__all__ = [
    "COUNTED",
    "FOUND",
    "FOUND_ENDS",
    "FURTHEST",
    "CrawledPageService",
    "FoundPages",
    "name_of",
    "starred",
]

FURTHEST: Final = 10_000
LONGEST_SEARCH: Final = 500  # characters of a search


@dataclass(frozen=True, slots=True)
class FoundPages:
    """Some of the pages, and their total number (counted up to 10,000)."""

    pages: list[CrawledPage]
    total: int


class CrawledPageService:
    """Queries of pages that crawls found."""

    def __init__(self, service: Service) -> None:
        self._rows, self._jobs = service.store.part(CrawledPages), service.jobs

    def search(
        self,
        words: str | None = None,
        job: Ref | None = None,
        host: str | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> FoundPages:
        """Search pages by words, the best match first; without words, list the newest pages."""
        check_page(limit, offset)
        check_words(q=words, host=host)
        if offset > FURTHEST:
            raise Invalid(f"offset can be {FURTHEST:,} at most: make the search more specific.")
        if words is not None and len(words) > LONGEST_SEARCH:
            raise Invalid(f"q can have {LONGEST_SEARCH} characters at most.")
        job_id: UUID | None = None if job is None else self._jobs.get(job).id
        chosen = PageFilter(words, job_id, None if host is None else host.lower())
        return FoundPages(*self._rows.search(chosen, limit, offset))

    def get(self, page_id: str) -> WholePage:
        """Return one whole page."""
        try:
            number = int(page_id, 16)
        except ValueError:
            number = -1
        found = self._rows.get(number) if 0 <= number < 2**63 else None
        if found is None:
            raise NotFound(f"There is no page {page_id[:100]!r}.")
        return found


def starred(snippet: str) -> str:
    """Write a snippet as text: `the **lamp** of the keeper`."""
    return snippet.replace(FOUND, "**").replace(FOUND_ENDS, "**")


def name_of(page: CrawledPage) -> str:
    """Return the id of a page as text."""
    return f"{page.id:016x}"
