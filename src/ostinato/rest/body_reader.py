"""Reading of request bodies before the endpoint runs: limited in size and time, and standard JSON."""

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.bodies import BODY_SECONDS, ClientGone, read_body, require_small
from ostinato.core.errors import Invalid, TooLarge, TooSlow
from ostinato.rest.failures import refusal, refuse
from ostinato.shapes.documents import json_of

READ_ON_THE_LOOP: Final = 16 * 1024  # bytes; a larger body is parsed on a thread, so that the loop is not blocked


class BodyReader:
    """Middleware that reads bodies: 408 for slow ones, 413 for large ones, 415 for other types, 422 for bad JSON."""

    def __init__(self, app: ASGIApp, seconds: float = BODY_SECONDS) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            answer, body = await _read(scope, receive, self._seconds)
        except ClientGone:
            return
        if answer is not None:
            await answer(scope, receive, send)
        else:
            await self._app(scope, _Replay(body, receive), send)


class _Replay:
    """Receive channel that gives the body again, then further messages (a disconnect)."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(scope: Scope, receive: Receive, seconds: float) -> tuple[Response | None, bytes]:
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return refuse(422, "The address contains a NUL character; remove it."), b""
    try:
        require_small(Headers(scope=scope))
        body = await read_body(receive, seconds)
    except (TooLarge, TooSlow) as error:
        return refusal(error), b""
    if not body:
        return None, b""
    headers = Headers(scope=scope)
    if not _is_json(headers.get("content-type", ""), may_be_silent="origin" not in headers):
        return refuse(415, "The body must be JSON: send Content-Type: application/json."), b""
    try:
        return None, plain(body) if len(body) <= READ_ON_THE_LOOP else await run_in_threadpool(plain, body)
    except Invalid as error:
        return refusal(error), b""


def _is_json(content_type: str, *, may_be_silent: bool) -> bool:
    """Return True if a body is declared as JSON. A program may omit the type, as an example of seed 003 does.

    A browser page may not: a page of any site can send a body without a type, but only our pages can send JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not kind:
        return may_be_silent
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def plain(body: bytes) -> bytes:
    """Return the body as standard JSON, without // comments; the examples of the seeds have them."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("The body is not text in UTF-8.") from None
    return json_of(text, "The body").encode()
