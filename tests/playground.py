"""A small real HTTP server that plays the APIs of others: well-behaved, and not.

    with Playground() as playground:
        playground.route("/items", lambda request: answered(b'{"data": []}'))
        playground.url("/items")        # http://127.0.0.1:PORT/items
        playground.requests             # what was asked: path, query, headers, body, when, over which connection

A route is a function of the request that returns the bytes of the answer, or an `async def` that gets the writer too.
It serves on a thread of its own, so that tests of any colour, and other processes, can call it.
"""

import asyncio
import gzip
import inspect
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.waiting import PATIENCE


@dataclass(frozen=True)
class Request:
    """What somebody asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    at: float
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


def answered(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """The bytes of an answer; a header `content_type` is written content-type."""
    lines = {"content-length": str(len(body))} | {n.replace("_", "-"): v for n, v in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


def answered_json(value: Any, status: int = 200, **headers: str) -> bytes:
    return answered(json.dumps(value).encode(), status, content_type="application/json", **headers)


@dataclass
class Playground:
    """The server. Everything it was asked is in `requests`."""

    routes: dict[str, Callable[..., Any]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self.routes = TRICKS | self.routes

    def route(self, path: str, answer: Callable[..., Any]) -> None:
        self.routes[path] = answer

    def url(self, target: str = "/ok", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{target}"

    def asked(self, path: str) -> list[Request]:
        return [each for each in self.requests if each.path == path]

    def __enter__(self) -> "Playground":
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)

    def _run(self, ready: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._over = asyncio.Event()
        self._talking: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._talk, "127.0.0.1", self.port, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._over.wait()
        server.close()
        for each in self._talking:
            each.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        self.connections += 1
        number = self.connections
        try:
            while not writer.is_closing():
                request = await _read(reader, number)
                self.requests.append(request)
                answer = self.routes.get(request.path, _unknown)
                if inspect.iscoroutinefunction(answer):
                    await answer(request, writer)
                else:
                    writer.write(answer(request))
                await writer.drain()
                if request.headers.get("connection") == "close":
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._talking.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader, connection: int) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    at = time.time()
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = first.split(" ")
    return Request(method, target, headers, body, at, connection)


def _unknown(request: Request) -> bytes:
    return answered(b"nothing here", 404)


# -- tricks


def _packed(packed: bytes, encoding: str) -> bytes:
    return answered(packed, content_encoding=encoding)


def _bomb(request: Request) -> bytes:
    """`megabytes` (100) of nothing, packed into little."""
    nothing = bytes(int(request.query.get("megabytes", "100")) * 1024 * 1024)
    kind = request.query.get("kind", "gzip")
    if kind == "br":
        import brotli

        return _packed(brotli.compress(nothing, quality=1), "br")
    return _packed(gzip.compress(nothing, 1) if kind == "gzip" else zlib.compress(nothing, 1), kind)


async def _slow(request: Request, writer: asyncio.StreamWriter) -> None:
    """A byte at a time, `every` so many seconds, for as long as somebody listens."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b"x")
        await writer.drain()
        every = float(request.query.get("every", "0.05"))
        await asyncio.sleep(every)  # for other threads: that is what makes it slow


async def _hang(request: Request, writer: asyncio.StreamWriter) -> None:
    """Nothing more: after `begin` of an answer, if there is one."""
    writer.write(request.query.get("begin", "").encode())
    await writer.drain()
    await asyncio.Event().wait()


async def _reset(request: Request, writer: asyncio.StreamWriter) -> None:
    """The connection is cut: at once, or in the middle of a body."""
    if "half" in request.query:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
        await writer.drain()
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _endless(request: Request, writer: asyncio.StreamWriter) -> None:
    """A body without an end, as fast as it is taken."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(1_000_000):
        writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
        await writer.drain()


async def _leave(request: Request, writer: asyncio.StreamWriter) -> None:
    """A good answer, and the connection is closed after it without a word."""
    writer.write(answered(b"bye"))
    await writer.drain()
    writer.close()


def _redirect(request: Request) -> bytes:
    return answered(b"", int(request.query.get("status", "302")), location=request.query["to"])


def _status(request: Request) -> bytes:
    more = {name: value for name, value in request.query.items() if name not in ("status", "body")}
    return answered(request.query.get("body", "").encode(), int(request.query["status"]), **more)


def _echo(request: Request) -> bytes:
    told = {"target": request.target, "headers": request.headers, "body": request.body.decode("latin-1")}
    return answered_json(told)


TRICKS: dict[str, Callable[..., Any]] = {
    "/ok": lambda request: answered(b"ok"),
    "/echo": _echo,
    "/status": _status,
    "/redirect": _redirect,
    "/loop": lambda request: answered(b"", 302, location="/loop"),
    "/html": lambda request: answered(b"<html>Please log in</html>", content_type="text/html"),
    "/bomb": _bomb,
    "/slow": _slow,
    "/hang": _hang,
    "/reset": _reset,
    "/endless": _endless,
    "/leave": _leave,
    "/huge-head": lambda request: answered(b"ok", x_huge="x" * 1_000_000),
    "/deep": lambda request: answered(b"[" * 100_000 + b"]" * 100_000),
    "/nonsense": lambda request: b"I do not speak HTTP\r\n\r\n",
    "/unknown-coding": lambda request: _packed(b"zzz", "zstd"),
    "/wrong-coding": lambda request: _packed(b"not packed at all", "gzip"),
    "/cut-coding": lambda request: _packed(gzip.compress(b"x" * 1000)[:-12], "gzip"),
}
