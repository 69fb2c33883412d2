"""Calling others over HTTP, because a user said so: the one safe way.

A name is looked up once for each connection; every address that it has must be one we may call, and the connection
goes to the addresses that were checked, not to the name (which could mean another by then). TLS still checks the
name. No proxy of the environment is asked, since it would look names up itself. Redirects are answers like any other.
Each call has a deadline for the whole of it and a bound for what is read.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ostinato.core.addresses import check_url, is_callable
from ostinato.core.errors import Invalid, Unreachable

if TYPE_CHECKING:
    import httpcore2
    import httpx2

CONNECT_WITHIN: Final = 5.0  # seconds for each address of a name
MOST_ADDRESSES: Final = 8  # of a name that are tried
AGENT: Final = "Ostinato"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; the body no longer than was asked for."""

    status: int
    body: bytes = b""

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


class Outgoing:
    """Calls that leave this process. To be used on one loop, and closed."""

    def __init__(self, *, allow_private: bool = False, verify: ssl.SSLContext | bool = True) -> None:
        self._allow_private, self._verify = allow_private, verify
        self._transport: httpx2.AsyncHTTPTransport | None = None

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = {},
        body: bytes = b"",
        seconds: float = 10.0,
        most: int = 0,
    ) -> Answer:
        """Send one request and read at most so many bytes of its answer; Unreachable if nothing came of it."""
        import httpx2

        try:
            check_url(url, "The URL", self._allow_private)
            async with asyncio.timeout(seconds), self._answer(method, url, headers, body) as answer:
                return Answer(answer.status_code, await _read(answer, most))
        except TimeoutError:
            raise Unreachable(f"There was no answer within {seconds:g} s.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, Invalid) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    @asynccontextmanager
    async def _answer(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> "AsyncIterator[httpx2.Response]":
        """Straight from the transport: a client of httpx would log each URL, and there are secrets in some."""
        import httpx2

        usual = {"user-agent": AGENT, "accept-encoding": "identity", "accept": "*/*"}
        request = httpx2.Request(method, url, headers=usual | dict(headers), content=body)
        answer = await self._opened().handle_async_request(request)
        try:
            yield answer
        finally:
            await answer.aclose()

    def _opened(self) -> "httpx2.AsyncHTTPTransport":
        if self._transport is None:
            self._transport = _transport(self._verify, self._allow_private)
        return self._transport


async def _read(answer: "httpx2.Response", most: int) -> bytes:
    read = b""
    if most:
        async for part in answer.aiter_raw():
            read += part
            if len(read) >= most:
                break
    return read[:most]


def _transport(verify: ssl.SSLContext | bool, allow_private: bool) -> "httpx2.AsyncHTTPTransport":
    """httpx's own, but for how it connects. (Imported here: most processes call nobody.)"""
    import httpcore2
    import httpx2

    class Checked(httpcore2.AsyncNetworkBackend):
        """Connects to addresses that were looked up and checked."""

        def __init__(self) -> None:
            self._network = httpcore2.AnyIOBackend()

        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
        ) -> "httpcore2.AsyncNetworkStream":
            last: Exception | None = None
            for address in (await _addresses(host, port, allow_private))[:MOST_ADDRESSES]:
                try:
                    return await self._network.connect_tcp(address, port, CONNECT_WITHIN, *args, **options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    last = error
            raise httpcore2.ConnectError(f"Nobody answers at {host}, port {port}.") from last

        async def sleep(self, seconds: float) -> None:
            await self._network.sleep(seconds)

    context = (
        verify if isinstance(verify, ssl.SSLContext) else httpx2.create_ssl_context(verify, trust_env=False)
    )
    transport = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
    transport._pool = httpcore2.AsyncConnectionPool(
        ssl_context=context,
        network_backend=Checked(),
        max_connections=20,
        max_keepalive_connections=0,
    )
    return transport


async def _addresses(host: str, port: int, allow_private: bool) -> list[str]:
    """What a name means now; refused if any of it may not be called."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable(f"The name {host} is not known.") from None
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    if not all(is_callable(address, allow_private) for address in addresses):
        raise Unreachable(
            f"{host} leads into a private network; OSTINATO_ALLOW_PRIVATE_ADDRESSES would let it."
        )
    return addresses
