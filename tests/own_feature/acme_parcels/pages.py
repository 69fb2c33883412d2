"""The page of parcels."""

from starlette.responses import Response

from acme_parcels.rows import Parcels
from ostinato.dashboard.page_request import PageRequest, get


def show(visit: PageRequest) -> Response:
    return visit.page("parcels.html", parcels=visit.service.store.part(Parcels).all())


ROUTES = (get("/parcels", show),)
