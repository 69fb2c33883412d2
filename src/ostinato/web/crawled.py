"""Pages that crawls found: looked for by their words, and one with all that is kept of it."""

from typing import Final

from starlette.responses import Response

from ostinato.core.errors import OstinatoError
from ostinato.scheduler.crawled import COUNTED, FURTHEST, name_of
from ostinato.web import asked
from ostinato.web.routes import get
from ostinato.web.visit import Visit

PAGE: Final = 20
SHOWN: Final = 20_000  # characters of a text; the rest is in the API
LINKS: Final = 200


def show_all(visit: Visit) -> Response:
    """Pages with these words, the best first; without words, those that were fetched last."""
    words, job, host = (asked.word(visit, name) for name in ("q", "job", "host"))
    offset = _offset(visit)
    try:
        found = visit.desk.pages.search(words or None, job or None, host or None, PAGE, offset)
    except OstinatoError as error:
        visit, offset = visit.troubled("filters", error), 0
        found = visit.desk.pages.search(limit=PAGE)
    jobs = visit.desk.board.some({page.job_id for page in found.pages})
    further = offset + PAGE
    return visit.page(
        "pages.html",
        found=found,
        jobs=jobs,
        name_of=name_of,
        chosen={"q": words, "job": job, "host": host},
        filtered=bool(words or job or host),
        counted=COUNTED,
        first_shown=offset + 1,
        more=asked.address(visit, offset=str(further)) if further < min(found.total, FURTHEST) else "",
        first=asked.address(visit, offset=None) if offset else "",
    )


def show(visit: Visit) -> Response:
    """One page."""
    whole = visit.desk.pages.get(visit.part("id"))
    return visit.page(
        "one_page.html",
        page=whole.page,
        whole=whole,
        name=name_of(whole.page),
        job=visit.desk.board.some([whole.page.job_id]).get(whole.page.job_id),
        text=whole.text[:SHOWN],
        cut=len(whole.text) > SHOWN,
        links=whole.links[:LINKS],
    )


def _offset(visit: Visit) -> int:
    """Read the offset of the list; anything but a number is 0."""
    text = asked.word(visit, "offset")
    return min(int(text), FURTHEST) if text.isascii() and text.isdigit() and len(text) < 10 else 0


ROUTES: Final = (get("/pages", show_all), get("/pages/{id}", show))
