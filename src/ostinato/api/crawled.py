"""Pages: what crawls found."""

from typing import Annotated

from fastapi import Path, Query

from ostinato.api.caller import Viewer
from ostinato.api.desk import Desk
from ostinato.api.routers import api_router
from ostinato.wire.crawled import PageList, PageQuery, WholePageAnswer

router = api_router("pages")

Id = Annotated[str, Path(alias="id", description="The id of a page.", max_length=100)]


@router.get("/pages")
def search_pages(asked: Annotated[PageQuery, Query()], desk: Desk, by: Viewer) -> PageList:
    """Pages that crawls found: those with the words of `q`, the best first; without it, the last fetched first."""
    found = desk.pages.search(asked.q, asked.job, asked.host, asked.limit, asked.offset)
    return PageList.of(found, asked)


@router.get("/pages/{id}")
def get_page(page_id: Id, desk: Desk, by: Viewer) -> WholePageAnswer:
    """One page, with its text and links."""
    return WholePageAnswer.of_whole(desk.pages.get(page_id))
