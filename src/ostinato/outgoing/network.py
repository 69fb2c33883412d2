"""Connections to checked addresses only. Imported late: most processes send no requests."""

import asyncio
import socket
import ssl
from contextvars import ContextVar
from typing import Any, Final

import httpcore2

from ostinato.core.addresses import Egress
from ostinato.core.errors import NotAllowed, Unreachable

CONNECT_WITHIN: Final = 5.0  # seconds for each address of a name
MOST_ADDRESSES: Final = 8  # tried for each name
MOST_CONNECTIONS: Final = 200
MOST_IDLE: Final = 50
IDLE_FOR: Final = 15.0  # seconds

# The connections that the request of this asyncio task has opened; empty if it reused one.
OPENED: ContextVar[list[str] | None] = ContextVar("ostinato_opened", default=None)


class _Checked(httpcore2.AsyncNetworkBackend):
    """Network backend that connects only to checked addresses."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        opened = OPENED.get()
        if opened is not None:
            opened.append(host)
        last: Exception | None = None
        for address in (await addresses(host, port, self._egress))[:MOST_ADDRESSES]:
            try:
                return await self._network.connect_tcp(address, port, CONNECT_WITHIN, *args, **options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise httpcore2.ConnectError(f"No server answers at {host}, port {port}.") from last

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


def connections(verify: ssl.SSLContext | bool, egress: Egress) -> httpcore2.AsyncConnectionPool:
    """Return a pool of connections. Reusing one is safe: its address was checked when it was opened."""
    return httpcore2.AsyncConnectionPool(
        ssl_context=_trust(verify),
        network_backend=_Checked(egress),
        max_connections=MOST_CONNECTIONS,
        max_keepalive_connections=MOST_IDLE,
        keepalive_expiry=IDLE_FOR,
    )


def _trust(verify: ssl.SSLContext | bool) -> ssl.SSLContext:
    if isinstance(verify, ssl.SSLContext):
        return verify
    import httpx2

    return httpx2.create_ssl_context(verify, trust_env=False)


async def addresses(host: str, port: int, egress: Egress) -> list[str]:
    """Resolve a host now; raise NotAllowed if any of its addresses is not allowed."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable(f"The name {host} is not known.") from None
    resolved = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for address in resolved:
        if (why := egress.refusal(address)) is not None:
            raise NotAllowed(f"{host} leads {why}")
    return resolved
