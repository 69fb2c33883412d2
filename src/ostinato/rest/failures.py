"""Error answers: JSON with a sentence, never a stack trace; and the router that declares them."""

import logging
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ostinato.core.errors import OstinatoError, StoreUnavailable, TooManyRequests
from ostinato.shapes.answers import ErrorAnswer, answer_of, error_text, refused, status_of

log = logging.getLogger("ostinato.rest")

RETRY_AFTER: Final = "5"  # seconds
NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}  # browsers must not guess the content type
SENTENCES: Final = {
    404: "There is nothing at this address; /docs lists all endpoints.",
}
ABOUT: Final = {
    401: "The credential is missing or invalid",
    403: "The role does not allow it",
    404: "Not found",
    408: "The body did not arrive within 30 s",
    409: "The state does not allow it; nothing was changed",
    412: "It was changed after it was read; read it again",
    413: "The body is larger than 1 MiB",
    415: "The body is not JSON",
    422: "The input is invalid; nothing was changed",
    429: "A limit of this server is reached; try again after Retry-After seconds",
    503: "The database is unavailable",
}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": ErrorAnswer, "description": about} for code, about in ABOUT.items()
}
RESPONSES[431] = {
    "description": "The head is larger than 32 KiB, or has more than 100 headers",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def refusal(error: OstinatoError) -> Response:
    """Return the answer to an error."""
    status = status_of(error)
    headers = {"Retry-After": RETRY_AFTER} if isinstance(error, StoreUnavailable) else {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(status, answer_of(error), headers)


def refuse(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    return _json(status, ErrorAnswer(detail=sentence), headers)


def answer_errors(app: FastAPI) -> None:
    """Register the answers to all errors of the application."""
    app.add_exception_handler(OstinatoError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, OstinatoError)
    if status_of(error) == 500:
        log.error("A request failed: %s", error)
    return refusal(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _json(422, refused(error.errors()))


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = ErrorAnswer(detail=SENTENCES.get(error.status_code, str(error.detail)))
    return _json(error.status_code, answer, dict(error.headers or {}))


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("A request failed: %s %s", request.method, request.url.path, exc_info=error)
    return refuse(500, "Internal error; the log of the server has the details.")


def _json(status: int, answer: ErrorAnswer, headers: dict[str, str] | None = None) -> Response:
    sent = {**NO_SNIFF, **(headers or {})}
    return Response(error_text(answer), status, sent, "application/json")


# -- Router that holds the prefix, tag and errors of its endpoints.
#
# When an app includes a router, FastAPI builds each route again at the first request: a third of a second for this API.
# So the routers are complete from the start, and apps use their routes unchanged.

API: Final = "/api/v1"


def api_router(tag: str, prefix: str = API) -> APIRouter:
    """Return a router with the prefix, tag and error answers of its endpoints."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=RESPONSES,
        strict_content_type=False,  # `BodyReader` has already refused other types
    )
