"""What someone on call opens first."""

from typing import Final

from starlette.responses import Response

from ostinato.web.routes import get
from ostinato.web.visit import Visit


def show(visit: Visit) -> Response:
    return visit.page("overview.html", counts=visit.desk.status_counts())


ROUTES: Final = (get("/", show),)
