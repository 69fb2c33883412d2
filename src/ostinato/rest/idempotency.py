"""`Idempotency-Key` on POST: a repeated request gets the first answer, from any process, for one day.

Only successful answers are stored: an error (4xx, 5xx) changed nothing, so the key can be used again. An answer with
`Cache-Control: no-store` contains a secret and is not stored.
"""

import hashlib
import json
import logging
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato.core.errors import OstinatoError
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.rest.failures import refusal, refuse
from ostinato.service.idempotency import Repeats

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
