"""An answer while it is received: its headers, its rate limits, and its body in parts, within bounds."""

import asyncio
import json
import re
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ostinato.core.errors import BadAnswer, TooMuch, Unreachable
from ostinato.core.payload import MIB, cut

if TYPE_CHECKING:
    import httpcore2


# -- Decompression of answers in small parts, so that a decompression bomb cannot fill the memory

PART: Final = 65_536  # bytes decompressed at once
EITHER_HEADER: Final = zlib.MAX_WBITS | 32  # gzip or zlib
Unpack = Callable[[bytes], Iterator[bytes]]


def unpacker(encoding: str) -> Unpack:
    """Return the decoder of a Content-Encoding; an empty part ends it."""
    match encoding.strip().lower():
        case "" | "identity":
            return _as_it_is
        case "gzip" | "x-gzip":
            return _Inflating()
        case "deflate":
            return _Inflating(raw=True)
        case "br" if find_spec("brotli") is not None:
            return _Brotli()
        case other:
            raise BadAnswer(f"The answer has an unknown Content-Encoding: {other[:50]}.", 200)


def _as_it_is(part: bytes) -> Iterator[bytes]:
    if part:
        yield part


class _Inflating:
    """Decoder of gzip (any number of members) and of deflate, with or without zlib's header."""

    def __init__(self, raw: bool = False) -> None:
        self._raw, self._begun = raw, False
        self._inflate = zlib.decompressobj(EITHER_HEADER)

    def __call__(self, part: bytes) -> Iterator[bytes]:
        if not part:
            if self._begun and not self._inflate.eof:
                raise BadAnswer("The compressed answer is incomplete.", 200)
            return
        while part:
            if self._inflate.eof:
                if not part.strip(b"\0"):
                    return  # padding
                self._inflate = zlib.decompressobj(EITHER_HEADER)
            unpacked = self._unpacked(part)
            part = self._inflate.unconsumed_tail or self._inflate.unused_data
            if unpacked:
                yield unpacked

    def _unpacked(self, part: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._inflate.decompress(part, PART)
        except zlib.error:
            if not self._raw or begun:
                raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return self._inflate.decompress(part, PART)
        except zlib.error:
            raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None


class _Brotli:
    """Decoder of Brotli, if the library is installed. Ostinato never asks for it, but some servers send it."""

    def __init__(self) -> None:
        brotli: Any = import_module("brotli")
        self._error: type[Exception] = brotli.error
        self._inflate: Any = brotli.Decompressor()

    def __call__(self, part: bytes) -> Iterator[bytes]:
        if not part:
            if not self._inflate.is_finished():
                raise BadAnswer("The compressed answer is incomplete.", 200)
            return
        try:
            while True:
                unpacked = self._inflate.process(part, output_buffer_limit=PART)
                if unpacked:
                    yield unpacked
                part = b""
                if self._inflate.can_accept_more_data():
                    return
        except self._error:
            raise BadAnswer("The answer does not match its Content-Encoding.", 200) from None


# -- Reading of `Retry-After`, `RateLimit-*` and their other spellings, within bounds.
#
# A refusal (429, 503 …) with `Retry-After` asks for a wait. So does any answer that says that no requests are left
# until
# a reset. A reset is written as seconds from now, or as seconds or milliseconds since 1970. A wait is at most an hour;
# an unreadable value is ignored.

LONGEST_WAIT: Final = timedelta(hours=1)
LEAST_INSTANT: Final = 1_000_000_000  # seconds; a greater number is a time since 1970, not a delay
LEAST_MILLISECONDS: Final = 100_000_000_000
NUMBER: Final = re.compile(r"\s*(\d{1,15})(\.\d{1,9})?\s*")
ITEM: Final = re.compile(r"\b(r|t|remaining|reset)\s*=\s*(\d{1,15})", re.IGNORECASE)
REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """The wait that an answer asks for, and the number of requests left."""

    wait: timedelta | None = None
    remaining: int | None = None


def asked_of(status: int, headers: Mapping[str, str], now: datetime) -> RateHeaders:
    """Read the headers of an answer. Header names are in lower case."""
    now = _date(headers.get("date", "")) or now  # the server's times are in its own clock
    remaining, reset = _left(headers)
    wait = _retry_after(headers.get("retry-after", ""), now) if status >= REFUSED else None
    if wait is None and reset is not None and (remaining == 0 or status == 429):
        wait = _reset(reset, now)
    return RateHeaders(None if wait is None else min(max(wait, timedelta(0)), LONGEST_WAIT), remaining)


def _retry_after(text: str, now: datetime) -> timedelta | None:
    seconds = _number(text)
    if seconds is not None:
        return _seconds(seconds)
    until = _date(text)
    return None if until is None else until - now


def _left(headers: Mapping[str, str]) -> tuple[int | None, float | None]:
    """Return the number of requests left, and the reset as written."""
    items = {name.lower(): float(value) for name, value in ITEM.findall(headers.get("ratelimit", ""))}
    remaining, reset = items.get("r", items.get("remaining")), items.get("t", items.get("reset"))
    for prefix in ("ratelimit-", "x-ratelimit-", "x-rate-limit-"):
        if remaining is None:
            remaining = _number(headers.get(f"{prefix}remaining", ""))
        if reset is None:
            reset = _number(headers.get(f"{prefix}reset", ""))
    return None if remaining is None else int(remaining), reset


def _reset(written: float, now: datetime) -> timedelta:
    if written < LEAST_INSTANT:
        return _seconds(written)
    seconds = written / 1000 if written > LEAST_MILLISECONDS else written
    return _seconds(seconds - now.timestamp())


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0), 1e9))


def _number(text: str) -> float | None:
    return float(text) if NUMBER.fullmatch(text) else None


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# -- An answer while it is received: its headers, and its body in parts, within bounds

EXCERPT: Final = 500  # bytes of a body that errors show
SHORT: Final = 4096
DEEPEST: Final = 100  # nested lists and objects
NESTS: Final = frozenset({dict, list})  # exact types: the parser makes no others

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a request. Time counts only while the client waits for the server."""

    begin: float = 30.0  # seconds until the answer of a hop begins, including the connection
    silence: float = 30.0  # seconds between two parts
    total: float = 300.0  # seconds in total, including redirects
    received: int = 50 * MIB  # bytes, compressed
    unpacked: int = 200 * MIB  # bytes, decompressed
    redirects: int = 5


class Patience:
    """The remaining time to wait for one request."""

    def __init__(self, host: str, total: float) -> None:
        self.host, self._total, self._left = host, total, total

    async def for_(self, coming: Awaitable[T], seconds: float) -> T:
        """Wait for the server, at most `seconds` and at most the remaining time."""
        began, most = time.monotonic(), min(seconds, self._left)
        try:
            async with asyncio.timeout(most):
                return await coming
        except TimeoutError:
            if most < seconds:
                raise Unreachable(f"{self.host} took more than {self._total:g} s in total.") from None
            raise Unreachable(f"{self.host} sent nothing for {seconds:g} s.") from None
        finally:
            self._left -= time.monotonic() - began


class Reply:
    """An answer. It can be read once, inside its `async with`."""

    def __init__(
        self,
        answer: "httpcore2.Response",
        url: str,
        bounds: Bounds,
        patience: Patience,
        now: datetime,
        hops: int,
        secrets: Iterable[str],
    ) -> None:
        self.status: int = answer.status
        self.headers: Mapping[str, str] = _headers(answer.headers)
        self.url = url  # the last URL, after redirects
        self.hops = hops  # the number of requests
        self.received = 0  # bytes so far, compressed
        self.unpacked = 0
        self._answer, self._bounds, self._patience, self._now = answer, bounds, patience, now
        self._secrets = tuple(secrets)
        self._parts = self._all_parts()
        self._rest = b""

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def asked(self) -> RateHeaders:
        """The wait that the answer asks for, and the number of requests left."""
        return asked_of(self.status, self.headers, self._now)

    def parts(self) -> AsyncIterator[bytes]:
        """Return the decompressed body in parts: each has 1 byte to 64 KiB."""
        return self._parts

    async def read(self, size: int = -1) -> bytes:
        """Return the whole body, or the next part of at most `size` bytes; empty at the end."""
        if size < 0:
            rest, self._rest = self._rest, b""
            return rest + b"".join([part async for part in self._parts])
        if not self._rest:
            self._rest = await anext(self._parts, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    async def json(self) -> Any:
        """Return the whole body as JSON; raise BadAnswer with its beginning if it is not JSON."""
        body = await self.read()
        try:
            return parse_json(body, self._patience.host)
        except BadAnswer as error:
            raise self._bad(str(error), body) from None

    async def require_good(self) -> None:
        """Raise BadAnswer unless the status is 2xx."""
        if not self.good:
            body = await self._beginning()
            raise self._bad(f"{self._patience.host} answered {self.status}.", body)

    def bad(self, message: str, body: bytes = b"") -> BadAnswer:
        """Return an error about this answer, with the beginning of its body, in which secrets are masked."""
        return self._bad(message, body)

    async def discard(self) -> None:
        """Close without using the body. A short body is read, so that the connection can be reused."""
        if self.headers.get("content-length", "").isdigit() and int(self.headers["content-length"]) <= SHORT:
            await self._beginning()
        await self.close()

    async def close(self) -> None:
        async with aclosing(self._parts):
            await self._answer.aclose()

    def hide(self, text: str) -> str:
        """Mask the secrets in a text: some servers repeat the request."""
        for secret in filter(None, self._secrets):
            text = text.replace(secret, "***")
        return text

    def _bad(self, message: str, body: bytes) -> BadAnswer:
        # Mask first, cut later: half of a secret at the end would not be recognised.
        text = self.hide(body[: EXCERPT + SHORT].decode("utf-8", "replace"))
        text = cut(text[:EXCERPT].strip(), EXCERPT)
        shown = f"{message} It begins: {text}" if text else message
        return BadAnswer(shown, self.status, text, self.headers)

    async def _beginning(self) -> bytes:
        """Return the beginning of the body for an error; empty if it cannot be read."""
        body = b""
        try:
            async for part in self._parts:
                body += part
                if len(body) >= SHORT:
                    break
        except Unreachable:
            return body
        return body

    async def _all_parts(self) -> AsyncGenerator[bytes, None]:
        unpack, incoming = unpacker(self.headers.get("content-encoding", "")), aiter(self._answer.stream)  # type: ignore[arg-type]
        over = False
        while not over:
            packed = await self._patience.for_(_next(incoming, self._patience.host), self._bounds.silence)
            over = not packed
            self.received += len(packed)
            if self.received > self._bounds.received:
                raise TooMuch(f"The answer is larger than {self._bounds.received:,} bytes.")
            for part in unpack(packed):
                self.unpacked += len(part)
                if self.unpacked > self._bounds.unpacked:
                    raise TooMuch(f"The answer decompresses to more than {self._bounds.unpacked:,} bytes.")
                yield part


def parse_json(body: bytes, whose: str, deepest: int = DEEPEST) -> Any:
    """Return a value from JSON; raise TooMuch if it is nested too deep."""
    try:
        value = json.loads(body)
    except RecursionError:
        raise TooMuch(f"{whose} answered with JSON that is nested too deep.") from None
    except ValueError:  # includes UnicodeDecodeError
        raise BadAnswer(f"{whose} did not answer with JSON.", 200) from None
    if _is_deeper(value, deepest, body.count(b"{") + body.count(b"[")):
        raise TooMuch(f"{whose} answered with JSON that is nested more than {deepest} deep.")
    return value


def _is_deeper(value: object, deepest: int, opened: int) -> bool:
    """Return True if a value is nested too deep. `opened` is at least the number of lists and objects.

    It walks level by level, because recursion could be too deep. It stops once too few lists and objects are left to
    reach the depth, as in most lists of records.
    """
    level: list[Any] = [value] if type(value) in NESTS else []
    for left in range(deepest - 1, -1, -1):
        opened -= len(level)
        if not level or opened <= left:
            return False
        insides = [each.values() if type(each) is dict else each for each in level]
        level = [inner for inside in insides for inner in inside if type(inner) in NESTS]
    return bool(level)


async def _next(incoming: AsyncIterator[bytes], host: str) -> bytes:
    import httpcore2

    try:
        async for part in incoming:
            if part:
                return part
    except httpcore2.RemoteProtocolError:
        raise Unreachable(f"{host} ended its answer too early.") from None
    except httpcore2.NetworkError:
        raise Unreachable(f"The connection to {host} broke in the middle of its answer.") from None
    return b""


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
