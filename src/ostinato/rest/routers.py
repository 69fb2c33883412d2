"""Routes that are whole when they are made.

A router that an app includes is built once more for it, with what the app adds to every route, when the first
request comes: a third of a second for ours. So they have it all from the start, and apps take them as they are.
"""

from typing import Final

from fastapi import APIRouter

from ostinato.rest.failures import RESPONSES

API: Final = "/api/v1"


def api_router(tag: str, prefix: str = API) -> APIRouter:
    """Return a router with the prefix, tag and refusals of all endpoints."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=RESPONSES,
        strict_content_type=False,  # what is not JSON has not come so far
    )
