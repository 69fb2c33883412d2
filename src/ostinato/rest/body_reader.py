"""Reading of request bodies, once and first: bounded in size, and standard JSON."""

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.bodies import BODY_SECONDS, ClientGone, read_body, require_small
from ostinato.core.errors import Invalid, TooLarge, TooSlow
from ostinato.rest.failures import refusal, refuse
from ostinato.shapes.documents import json_of

READ_ON_THE_LOOP: Final = 16 * 1024  # what is larger is read on a thread, so that the loop goes on


class BodyReader:
    """Reader of bodies: slow ones are 408, large ones 413, other types 415, and all but plain JSON is 422."""

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
    """The body that was read, then whatever else comes (a disconnect)."""

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
        return refuse(415, "The body must be JSON: say Content-Type: application/json."), b""
    try:
        return None, plain(body) if len(body) <= READ_ON_THE_LOOP else await run_in_threadpool(plain, body)
    except Invalid as error:
        return refusal(error), b""


def _is_json(content_type: str, *, may_be_silent: bool) -> bool:
    """Return True if a body is declared as JSON. A program may leave the type out, as the seed's example of a PUT.

    A page may not: any other page can send a body without a type, and only a page of ours one that is said to be JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not kind:
        return may_be_silent
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def plain(body: bytes) -> bytes:
    """The body, if it is JSON of the kind that we keep. Comments as in // the seed's examples are taken out."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("The body is not text in UTF-8.") from None
    return json_of(text, "The body").encode()
