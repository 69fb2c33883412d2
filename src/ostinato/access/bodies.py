"""Reading of request bodies, within limits of size and time."""

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Receive

from ostinato.core.errors import TooLarge, TooSlow

BODY_SECONDS: Final = 30.0
LARGEST_BODY: Final = 1024 * 1024


class ClientGone(Exception):
    """The client closed the connection before the body was complete."""


def require_small(headers: Headers) -> None:
    """Refuse a body whose announced length is over the limit."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > LARGEST_BODY:
        raise _too_large()


async def read_body(receive: Receive, seconds: float = BODY_SECONDS) -> bytes:
    """Read a whole body; raise TooLarge, TooSlow or ClientGone."""
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive)
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {seconds:g} s; send it again.") from None


async def _read(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {LARGEST_BODY:,} bytes; send less at once.")
