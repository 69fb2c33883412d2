"""Endpoints of crawled pages."""

from typing import Annotated

from fastapi import Path, Query

from ostinato.rest.caller import Viewer
from ostinato.rest.dependencies import ServiceDep
from ostinato.rest.routers import api_router
from ostinato.shapes.crawled_pages import CrawledPageQuery, PageList, WholePageAnswer

router = api_router("pages")

Id = Annotated[str, Path(alias="id", description="The id of a page.", max_length=100)]


@router.get("/pages")
def search_pages(asked: Annotated[CrawledPageQuery, Query()], service: ServiceDep, by: Viewer) -> PageList:
    """Search crawled pages for the words of `q`, the best first; without `q`, list the last fetched first."""
    found = service.pages.search(asked.q, asked.job, asked.host, asked.limit, asked.offset)
    return PageList.of(found, asked)


@router.get("/pages/{id}")
def get_page(page_id: Id, service: ServiceDep, by: Viewer) -> WholePageAnswer:
    """Get a page with its text and links."""
    return WholePageAnswer.of_whole(service.pages.get(page_id))
