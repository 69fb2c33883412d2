"""Calls that leave the process, out of a test: names mean what it says, and none takes long."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ostinato.core.addresses import EVERYWHERE
from ostinato.outgoing import Outgoing
from tests.waiting import PATIENCE


@asynccontextmanager
async def outgoing(**given) -> AsyncIterator[Outgoing]:
    out = Outgoing(**{"egress": EVERYWHERE} | given)
    try:
        yield out
    finally:
        await out.close()


def names(monkeypatch, loop, **known: list[str]) -> list[str]:
    """Let names mean these addresses; those that were looked up."""
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    return asked


def run(story) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE))


async def fetch(out, url: str, method: str = "GET", **given) -> bytes:
    async with out.request(method, url, **given) as reply:
        return await reply.read()
