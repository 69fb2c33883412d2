"""`/metrics`, for Prometheus."""

from typing import Annotated, Final

from fastapi import APIRouter, Header, Response

from ostinato.rest.caller import Viewer
from ostinato.rest.exporter import PrometheusText
from ostinato.rest.routers import api_router

TEXT: Final[dict[int | str, dict[str, object]]] = {
    200: {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def router(text: PrometheusText) -> APIRouter:
    """Return the endpoint `/metrics`."""
    routes = api_router("metrics", prefix="")

    @routes.get("/metrics", response_class=Response, responses=TEXT)
    def metrics(by: Viewer, accept: Annotated[str, Header()] = "") -> Response:
        """Return all metrics in the format of Prometheus."""
        written, content_type = text.written(accept)
        return Response(written, media_type=content_type, headers={"Cache-Control": "no-store"})

    return routes
