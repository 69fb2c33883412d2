"""Middleware of the REST API: bodies, places, idempotency keys, and answers to unknown methods."""

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.access.requests import (
    BODY_SECONDS,
    ClientGone,
    Workload,
    allow_of,
    read_body,
    require_small,
    wrong_method,
)
from ostinato.core.errors import Invalid, OstinatoError, TooLarge, TooManyRequests, TooSlow
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.rest.failures import NO_SNIFF, refusal, refuse
from ostinato.service.access import Repeats
from ostinato.shapes.documents import json_of

# -- Reading of request bodies before the endpoint runs: limited in size and time, and standard JSON

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
            await self._app(scope, _BodyAgain(body, receive), send)


class _BodyAgain:
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


# -- Limit of concurrent requests: a request takes a place after its body, and returns it when its answer begins


class Working:
    """Middleware that waits for a place before a request runs; 429 if too many wait. Open paths need no place."""

    def __init__(self, app: ASGIApp, workload: Workload) -> None:
        self._app, self._workload = app, workload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = scope.get("state", {}).get("admission")
        if admission is None:
            await self._app(scope, receive, send)
            return
        try:
            place = await self._workload.place(admission.credential)
        except TooManyRequests as error:
            await refusal(error)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                place.give_back()
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            place.give_back()


# -- `Idempotency-Key` on POST: a repeated request gets the first answer, from any process, for one day.
#
# Only successful answers are stored: an error (4xx, 5xx) changed nothing, so the key can be used again. An answer with
# `Cache-Control: no-store` contains a secret and is not stored.

log = logging.getLogger("ostinato.rest")

HEADER: Final = "idempotency-key"
LONGEST_KEY: Final = 255
STORED_HEADERS: Final = ("content-type", "etag", "location")


class Repeating:
    """Middleware that runs a POST with a key once. It runs after `BodyReader`, because it needs the body."""

    def __init__(self, app: ASGIApp, repeats: Repeats) -> None:
        self._app, self._repeats = app, repeats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        keys = Headers(scope=scope).getlist(HEADER) if _is_post(scope) else []
        if not keys:
            await self._app(scope, receive, send)
            return
        if len(keys) > 1 or not _usable(keys[0]):
            wrong = refuse(422, f"An Idempotency-Key is one text of 1 to {LONGEST_KEY} printable characters.")
            await wrong(scope, receive, send)
            return
        message = await receive()
        asked = RepeatableRequest(scope["state"]["caller"].name, keys[0], _fingerprint(scope, message.get("body", b"")))
        try:
            known = await run_in_threadpool(self._repeats.begin, asked)
        except OstinatoError as error:
            await refusal(error)(scope, receive, send)
            return
        if known is not None:
            await _replayed(known)(scope, receive, send)
        else:
            await self._run_once(asked, scope, _Replay(message, receive), send)

    async def _run_once(self, asked: RepeatableRequest, scope: Scope, receive: Receive, send: Send) -> None:
        buffer = _AnswerBuffer(send)
        try:
            await self._app(scope, receive, buffer)
        finally:
            await run_in_threadpool(self._store, asked, buffer.answered())
        await buffer.flush()

    def _store(self, asked: RepeatableRequest, answered: Answered | None) -> None:
        """Store the answer, or free the key. An error is only logged, because the request is already done."""
        try:
            if answered is None:
                self._repeats.drop(asked)
            else:
                self._repeats.finish(asked, answered)
        except OstinatoError as error:
            log.warning("Answer to a request with an Idempotency-Key not stored: %s", error)


class _Replay:
    """Receive channel that gives the first message again, then the others."""

    def __init__(self, message: Message, receive: Receive) -> None:
        self._message: Message | None = message
        self._receive = receive

    async def __call__(self) -> Message:
        if self._message is None:
            return await self._receive()
        message, self._message = self._message, None
        return message


class _AnswerBuffer:
    """Buffer that delays an answer until it is stored: a repeat must get the answer that the client saw."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._messages.append(message)

    async def flush(self) -> None:
        for message in self._messages:
            await self._send(message)

    def answered(self) -> Answered | None:
        """Return the answer to store, if there is one."""
        if not self._messages:
            return None
        start, *parts = self._messages
        headers = Headers(raw=start["headers"])
        if start["status"] >= 300 or headers.get("cache-control") == "no-store":
            return None
        body = b"".join(part.get("body", b"") for part in parts)
        named = {name: headers[name] for name in STORED_HEADERS if name in headers}
        return Answered(start["status"], json.dumps(named), body.decode())


def _is_post(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "POST" and "caller" in scope.get("state", {})


def _usable(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()


def _fingerprint(scope: Scope, body: bytes) -> str:
    address = f"{scope['path']}?".encode() + scope["query_string"] + b"\n"
    return hashlib.sha256(address + body).hexdigest()


def _replayed(known: Answered) -> Response:
    headers = json.loads(known.headers) | {"Idempotency-Replayed": "true"}
    return Response(known.body, known.status, headers)


# -- Middleware for all endpoints: the answer to an unsupported method, and a header against content sniffing


class ByMethod:
    """Middleware that answers 405 and lists the methods of the path."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allow = allow_of(self._routes, scope) if scope["type"] == "http" else None
        if allow is None:
            await self._app(scope, receive, send)
            return
        await refuse(405, wrong_method(scope, allow), {"Allow": allow})(scope, receive, send)


class NoSniff:
    """Middleware that tells browsers not to guess content types."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(NO_SNIFF)
            await send(message)

        await self._app(scope, receive, send_with_header)
