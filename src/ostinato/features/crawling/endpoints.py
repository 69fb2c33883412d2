"""Endpoints of crawled pages."""

from typing import Annotated

from fastapi import Path, Query

from ostinato.features.crawling.service import CrawledPageService
from ostinato.features.crawling.shapes import CrawledPageQuery, PageList, WholePageAnswer
from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import part
from ostinato.rest.routers import api_router

router = api_router("pages")
Pages = Annotated[CrawledPageService, part(CrawledPageService)]

Id = Annotated[str, Path(alias="id", description="The id of a page.", max_length=100)]


@router.get("/pages")
def search_pages(asked: Annotated[CrawledPageQuery, Query()], pages: Pages, by: Viewer) -> PageList:
    """Search crawled pages for the words of `q`, the best first; without `q`, list the last fetched first."""
    found = pages.search(asked.q, asked.job, asked.host, asked.limit, asked.offset)
    return PageList.of(found, asked)


@router.get("/pages/{id}")
def get_page(page_id: Id, pages: Pages, by: Viewer) -> WholePageAnswer:
    """Get a page with its text and links."""
    return WholePageAnswer.of_whole(pages.get(page_id))
