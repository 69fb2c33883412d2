"""`Idempotency-Key` on POST: a repeat gets the first answer, from any process, for a day.

Only what was done is kept: a refusal (4xx, 5xx) changed nothing, so the key is free for another try. An answer that
says `Cache-Control: no-store` holds a secret and is not kept.
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
from ostinato.rest.failures import refusal, refuse
from ostinato.service.idempotency import Repeats
from ostinato.store.idempotency import Answered, RepeatableRequest

log = logging.getLogger("ostinato.rest")

HEADER: Final = "idempotency-key"
LONGEST_KEY: Final = 255
KEPT_HEADERS: Final = ("content-type", "etag", "location")


class Repeating:
    """Carries out a POST with a key once. Stands behind the reading, so that the body is at hand."""

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
        asked = RepeatableRequest(
            scope["state"]["caller"].name, keys[0], _fingerprint(scope, message.get("body", b""))
        )
        try:
            known = await run_in_threadpool(self._repeats.begin, asked)
        except OstinatoError as error:
            await refusal(error)(scope, receive, send)
            return
        if known is not None:
            await _again(known)(scope, receive, send)
        else:
            await self._carry_out(asked, scope, _First(message, receive), send)

    async def _carry_out(self, asked: RepeatableRequest, scope: Scope, receive: Receive, send: Send) -> None:
        held = _Held(send)
        try:
            await self._app(scope, receive, held)
        finally:
            await run_in_threadpool(self._keep, asked, held.answered())
        await held.pass_on()

    def _keep(self, asked: RepeatableRequest, answered: Answered | None) -> None:
        """The request is over, whatever becomes of this."""
        try:
            if answered is None:
                self._repeats.drop(asked)
            else:
                self._repeats.finish(asked, answered)
        except OstinatoError as error:
            log.warning("The answer to a request with a key could not be kept: %s", error)


class _First:
    """The message that was taken, then the others."""

    def __init__(self, message: Message, receive: Receive) -> None:
        self._message: Message | None = message
        self._receive = receive

    async def __call__(self) -> Message:
        if self._message is None:
            return await self._receive()
        message, self._message = self._message, None
        return message


class _Held:
    """Holds an answer back until it is kept: what a client has seen, a repeat must get."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._messages.append(message)

    async def pass_on(self) -> None:
        for message in self._messages:
            await self._send(message)

    def answered(self) -> Answered | None:
        """The answer to keep, if any."""
        if not self._messages:
            return None
        start, *parts = self._messages
        headers = Headers(raw=start["headers"])
        if start["status"] >= 300 or headers.get("cache-control") == "no-store":
            return None
        body = b"".join(part.get("body", b"") for part in parts)
        named = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        return Answered(start["status"], json.dumps(named), body.decode())


def _is_post(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "POST" and "caller" in scope.get("state", {})


def _usable(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()


def _fingerprint(scope: Scope, body: bytes) -> str:
    address = f"{scope['path']}?".encode() + scope["query_string"] + b"\n"
    return hashlib.sha256(address + body).hexdigest()


def _again(known: Answered) -> Response:
    headers = json.loads(known.headers) | {"Idempotency-Replayed": "true"}
    return Response(known.body, known.status, headers)
