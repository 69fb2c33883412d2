"""Hostile clients beside `ostinato serve`: a job that is due each second runs at each of its due times.

The figures of the trust issue: 30 readers of the dearest preview, 1,100 half-sent requests, 1,100 bodies that trickle.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.server import Server
from tests.system.test_http_process import http_process, pid_of
from tests.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("starving")]

SECONDS = 12
LATE = 0.1  # seconds, at the 99th percentile
PREVIEW = json.dumps({"schedule": {"cron": "0 0 29 2 */7"}, "n": 1000}).encode()
HEAD = (
    b"POST /api/v1/preview HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


class Ticking(Server):
    """An app with a job that writes how late it is, each second."""

    APP = """
import time
from ostinato import Context, Ostinato

app = Ostinato("seed")

@app.task(every="1s")
async def tick(ctx: Context) -> None:
    with open("ticks", "a") as file:
        file.write(f"{time.time()} {time.time() - ctx.due_at.timestamp()}\\n")
"""

    def ticks(self) -> list[tuple[float, float]]:
        """Begin and lateness of each body."""
        file = self.folder / "ticks"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(float(begun), float(late)) for begun, late in map(str.split, lines)]


@pytest.fixture
def server(tmp_path, empty_database_url) -> Iterator[Ticking]:
    server = Ticking(tmp_path, empty_database_url, OSTINATO_HTTP_PROCESS="on")
    eventually(server.ready)
    eventually(lambda: server("GET", "/healthz").code == 200 and len(server.ticks()) > 2)
    yield server
    server.kill()


async def preview(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(HEAD % len(PREVIEW) + PREVIEW)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    await reader.read()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % 100_000)
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.read(1)


async def honest(host: str, port: int, answers: list[bool]) -> None:
    """Ask for the health of the server again and again, over a new connection each time."""
    while True:
        answer = b""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        answers.append(answer.startswith(b"HTTP/1.1 200"))
        await asyncio.sleep(0.2)


async def attacked(address: str, attack: Attack, many: int) -> list[bool]:
    """Return which requests of an honest client were answered meanwhile."""
    parts, answers = urlsplit(address), list[bool]()

    async def again_and_again() -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
                try:
                    await attack(reader, writer)
                finally:
                    writer.close()
            await asyncio.sleep(0.2)

    attackers = [asyncio.create_task(again_and_again()) for _ in range(many)]
    await asyncio.sleep(1)  # until all are connected
    attackers.append(asyncio.create_task(honest(parts.hostname, parts.port, answers)))
    await asyncio.sleep(SECONDS - 1)
    for each in attackers:
        each.cancel()
    failed = [error for error in await asyncio.gather(*attackers, return_exceptions=True)
              if isinstance(error, AssertionError)]  # fmt: skip
    assert not failed
    return answers


def memory_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


@pytest.mark.parametrize(
    ("attack", "many"), [(preview, 30), (half, 1100), (trickle, 1100)], ids=["previews", "halves", "trickles"]
)
def test_a_job_runs_each_second_beside_hostile_clients(server: Ticking, attack, many, record_property):
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, min(4096, most)), most))
    begun = time.time()
    answers = asyncio.run(attacked(server.address, attack, many))
    found = [late for at, late in server.ticks() if begun <= at < begun + SECONDS]
    late = sorted(found)[int(len(found) * 0.99)]
    memory = [memory_mb(pid_of(server)), memory_mb(http_process(server))]
    for name, value in (("runs", len(found)), ("p99_ms", round(late * 1000)), ("memory_mb", memory),
                        ("answered", f"{sum(answers)} of {len(answers)}")):  # fmt: skip
        record_property(name, value)
    assert len(found) >= SECONDS - 1  # the first and the last second are not whole
    assert late < LATE
    assert sum(answers) >= 0.9 * len(answers) > 1
    assert "Traceback" not in server.log
