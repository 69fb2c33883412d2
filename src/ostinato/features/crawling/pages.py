"""Pages that crawls found: the search by words, and one page with its stored data."""

from typing import Final

from markupsafe import Markup, escape
from starlette.responses import Response

from ostinato.core.errors import OstinatoError
from ostinato.dashboard import page_request
from ostinato.dashboard.page_request import PageRequest, get
from ostinato.features.crawling.service import COUNTED, FOUND, FOUND_ENDS, FURTHEST, CrawledPageService, name_of

ROWS_OF_A_PAGE: Final = 20
SHOWN_CHARACTERS: Final = 20_000  # characters of a text; the API has all
LINKS: Final = 200


def show_all(visit: PageRequest) -> Response:
    """Show the pages with some words, the best match first; without words, the last fetched first."""
    words, job, host = (page_request.word(visit, name) for name in ("q", "job", "host"))
    offset = _offset(visit)
    try:
        found = visit.part(CrawledPageService).search(words or None, job or None, host or None, ROWS_OF_A_PAGE, offset)
    except OstinatoError as error:
        visit, offset = visit.with_error("filters", error), 0
        found = visit.part(CrawledPageService).search(limit=ROWS_OF_A_PAGE)
    jobs = visit.service.board.some({page.job_id for page in found.pages})
    further = offset + ROWS_OF_A_PAGE
    return visit.page(
        "pages.html",
        found=found,
        jobs=jobs,
        name_of=name_of,
        marked=marked,
        chosen={"q": words, "job": job, "host": host},
        filtered=bool(words or job or host),
        counted=COUNTED,
        first_shown=offset + 1,
        more=page_request.address(visit, offset=str(further)) if further < min(found.total, FURTHEST) else "",
        first=page_request.address(visit, offset=None) if offset else "",
    )


def show(visit: PageRequest) -> Response:
    """Show one page."""
    whole = visit.part(CrawledPageService).get(visit.path_param("id"))
    return visit.page(
        "one_page.html",
        page=whole.page,
        whole=whole,
        name=name_of(whole.page),
        job=visit.service.board.some([whole.page.job_id]).get(whole.page.job_id),
        text=whole.text[:SHOWN_CHARACTERS],
        cut=len(whole.text) > SHOWN_CHARACTERS,
        links=whole.links[:LINKS],
    )


def marked(snippet: str) -> Markup:
    """Return a snippet with the found words marked."""
    begins, *rest = snippet.split(FOUND)
    return Markup().join([escape(begins), *(_marked(*each.partition(FOUND_ENDS)) for each in rest)])


def _marked(word: str, _: str, after: str) -> Markup:
    return Markup("<mark>{}</mark>{}").format(word, after)


def _offset(visit: PageRequest) -> int:
    """Read the offset of the list; anything but a number is 0."""
    text = page_request.word(visit, "offset")
    return min(int(text), FURTHEST) if text.isascii() and text.isdigit() and len(text) < 10 else 0


ROUTES: Final = (get("/pages", show_all), get("/pages/{id}", show))
