"""Router that holds the prefix, tag and errors of its endpoints.

When an app includes a router, FastAPI builds each route again at the first request: a third of a second for this API.
So the routers are complete from the start, and apps use their routes unchanged.
"""

from typing import Final

from fastapi import APIRouter

from ostinato.rest.failures import RESPONSES

API: Final = "/api/v1"


def api_router(tag: str, prefix: str = API) -> APIRouter:
    """Return a router with the prefix, tag and error answers of its endpoints."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=RESPONSES,
        strict_content_type=False,  # `BodyReader` has already refused other types
    )
