"""Requests: where they come from, and the limits of their bodies, number and checks."""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope

from ostinato.core.errors import TooLarge, TooManyRequests, TooSlow

# -- Origin of a request

OWN_SITES: Final = ("same-origin", "none")  # values of `Sec-Fetch-Site`: a page of this server, or no page


def is_followed_link(headers: Headers) -> bool:
    """Return whether a browser opens a page without sending a body, as a form would."""
    if "content-type" in headers or "content-length" in headers:
        return False
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def is_loopback(host: str) -> bool:
    """Return True if an address or name is this host's own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# -- Reading of request bodies, within limits of size and time

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


# -- Limit of concurrent requests: a few of each credential at once; others wait in order, too many are refused.
#
# Only work counts: receiving a body and sending an answer need no place.

AT_WORK: Final = 8
WAITING: Final = 64  # requests of one credential
WAITING_UNNAMED: Final = 992  # all requests without a credential together: 1,000 with the running ones


@dataclass(slots=True)
class _RequestQueue:
    """Requests of one credential; `places` admits them in order."""

    places: asyncio.Semaphore
    requests: int = 0


class Workload:
    """Requests of all credentials. Use it on one event loop."""

    def __init__(self, waiting: int = WAITING, at_work: int = AT_WORK) -> None:
        self._waiting, self._at_work = waiting, at_work
        self._queues: dict[str, _RequestQueue] = {}

    async def place(self, credential: str) -> "_WorkPlace":
        """Wait for a place; raise TooManyRequests if too many requests wait already.

        Requests without a credential share one long queue, so that a stranger cannot block the log-in.
        """
        waiting = self._waiting if credential else WAITING_UNNAMED
        queue = self._queues.setdefault(credential, _RequestQueue(asyncio.Semaphore(self._at_work)))
        if queue.requests >= self._at_work + waiting:
            raise TooManyRequests(f"{self._at_work} requests run and {waiting} wait. Send fewer at once.")
        queue.requests += 1
        try:
            await queue.places.acquire()
        except BaseException:
            self._leave(credential, queue)
            raise
        return _WorkPlace(partial(self._end, credential, queue))

    def _end(self, credential: str, queue: _RequestQueue) -> None:
        queue.places.release()
        self._leave(credential, queue)

    def _leave(self, credential: str, queue: _RequestQueue) -> None:
        queue.requests -= 1
        if not queue.requests:
            del self._queues[credential]


class _WorkPlace:
    """Permission for a request to run, until it is given back."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def give_back(self) -> None:
        """Let the next request run. A second call changes nothing."""
        end, self._end = self._end, None
        if end is not None:
            end()


# -- Threads for the checks of each request, which slow requests cannot occupy

CHECKS_AT_ONCE: Final = 4

T = TypeVar("T")

_limiter: Final = RunVar[CapacityLimiter]("_limiter")


async def run_check(check: Callable[[], T]) -> T:
    """Run a check of a credential or of readiness on a thread that is reserved for checks."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(CHECKS_AT_ONCE)
        _limiter.set(limiter)
    return await run_sync(check, limiter=limiter)


# -- HTTP methods of an address, for the answer to a method that it does not allow


def allow_of(routes: Sequence[BaseRoute], scope: Scope) -> str | None:
    """List the methods of an address for the header `Allow`; None if it allows this one or does not exist."""
    methods = set[str]()
    for route in _own(routes, scope):
        match route.matches(scope)[0]:
            case Match.FULL:
                return None
            case Match.PARTIAL:
                methods |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(methods)) or None


def _own(routes: Sequence[BaseRoute], scope: Scope) -> Sequence[BaseRoute]:
    """Prefer the routes whose path equals the address: /jobs/bulk is not a job with the key bulk."""
    return [route for route in routes if getattr(route, "path", None) == scope["path"]] or routes


def wrong_method(scope: Scope, allow: str) -> str:
    """Say which methods an address has."""
    return f"This address does not allow {scope['method'][:20]}. Use {allow}."
