"""Endpoints of crawled pages."""

from typing import Annotated, Final

from ostinato.core.access import Role
from ostinato.core.arguments import text
from ostinato.endpoints.table import Ask, InPath, Table
from ostinato.features.crawling.service import CrawledPageService
from ostinato.features.crawling.shapes import CrawledPageQuery, PageList, WholePageAnswer

TABLE: Final = Table("pages")

PageId = Annotated[str, InPath("id", "The id of a page.", text(100))]


@TABLE.get("/pages", Role.VIEWER)
def search_pages(ask: Ask, asked: CrawledPageQuery) -> PageList:
    """Search crawled pages for the words of `q`, the best first; without `q`, list the last fetched first."""
    found = ask.part(CrawledPageService).search(asked.q, asked.job, asked.host, asked.limit, asked.offset)
    return PageList.of(found, asked)


@TABLE.get("/pages/{id}", Role.VIEWER)
def get_page(ask: Ask, page_id: PageId) -> WholePageAnswer:
    """Get a page with its text and links."""
    return WholePageAnswer.of_whole(ask.part(CrawledPageService).get(page_id))
