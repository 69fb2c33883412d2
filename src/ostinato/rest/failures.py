"""Error answers: JSON with a sentence, never a stack trace."""

import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from ostinato.core.errors import OstinatoError, StoreUnavailable, TooManyRequests
from ostinato.shapes.errors import ErrorAnswer, answer_of, refused, status_of

log = logging.getLogger("ostinato.rest")

RETRY_AFTER: Final = "5"  # seconds
NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}  # a browser takes an answer for what it says it is
SENTENCES: Final = {
    404: "There is nothing here; /docs has what there is.",
}
ABOUT: Final = {
    401: "No credential, or one that is not good",
    403: "The role is not enough",
    404: "There is no such thing",
    408: "The body did not arrive within 30 s",
    409: "The state does not allow it; nothing was changed",
    412: "Somebody else has changed it since it was read",
    413: "The body is larger than 1 MiB",
    415: "The body is not JSON",
    422: "The input is wrong; nothing was changed",
    429: "A limit of this server is reached; try again after Retry-After seconds",
    503: "The database is away",
}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": ErrorAnswer, "description": about} for code, about in ABOUT.items()
}
RESPONSES[431] = {
    "description": "The head is larger than 32 KiB, or has more than 100 headers",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def refusal(error: OstinatoError) -> Response:
    """An error of ours as an answer."""
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
    """Every error of this app is answered here."""
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
    return refuse(500, "Something went wrong inside; the log of the server says what.")


def _json(status: int, answer: ErrorAnswer, headers: dict[str, str] | None = None) -> Response:
    told = {**NO_SNIFF, **(headers or {})}
    return JSONResponse(answer.model_dump(mode="json", exclude_none=True), status, told)
