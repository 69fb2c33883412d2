"""Limits of HTTP connections, over real sockets, with limits small enough that no test waits."""

from __future__ import annotations

import asyncio
import inspect
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator

import h11
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from ostinato.app.listening import Listening
from ostinato.app.serving import Connection, HttpLimits, HttpServer
from ostinato.config import Settings
from ostinato.rest.middleware import BodyReader
from tests.waiting import PATIENCE, eventually

LONG = PATIENCE  # a limit that no test reaches
SHORT = 0.2
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
UNREAD = b"GET /?bytes=30000000 HTTP/1.1\r\nHost: x\r\n\r\n"
STREAM = b"GET /?stream=1 HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Served:
    """A server on its own thread, and connections to it."""

    def __init__(self, limits: HttpLimits, body_seconds: float) -> None:
        self.done: list[str] = []
        self.release = threading.Event()  # for requests that are held
        self._connections: list[socket.socket] = []
        app = Starlette(routes=[Route("/", self._answer, methods=["GET", "POST"])])
        app.add_middleware(BodyReader, seconds=body_seconds)
        self.bound = Listening(port=0).bind(Settings())
        self.address = self.bound.getsockname()
        self.server = HttpServer(app, self.bound, limits=limits)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()

    async def _serve(self) -> None:
        await self.server.start()

    async def _answer(self, request: Request) -> Response:
        self.done.append((await request.body()).decode())
        if "hold" in request.query_params:
            await asyncio.to_thread(self.release.wait)
        if "stream" in request.query_params:
            return StreamingResponse(b"x" * 1_000_000 for _ in range(30))
        return PlainTextResponse("x" * int(request.query_params.get("bytes", 2)))

    def connect(self, sent: bytes = b"", receive_buffer: int = 0) -> socket.socket:
        connection = socket.socket()
        self._connections.append(connection)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(PATIENCE)
        connection.connect(self.address)
        connection.sendall(sent)
        return connection

    @property
    def open(self) -> int:
        return len(self.server.server_state.connections)

    def stop(self) -> None:
        self.release.set()
        for each in self._connections:
            each.close()
        self.server.stop()
        self._thread.join(PATIENCE)
        self.bound.close()


@pytest.fixture
def serve(caplog) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []
    caplog.set_level(logging.INFO)

    def serve(*, body_seconds: float = LONG, **limits: float) -> Served:
        usual = {"head": LONG, "body": LONG, "unread": LONG}
        started.append(Served(HttpLimits(**usual | limits), body_seconds))
        return started[-1]

    yield serve
    for served in started:
        served.stop()
    assert not [record for record in caplog.get_records("call") if record.exc_info]


def whole(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def one(connection: socket.socket) -> bytes:
    """Read one answer from a kept-alive connection."""
    got = b""
    while not got.endswith(b"xx") and (part := connection.recv(65536)):
        got += part
    return got


def answered(served: Served) -> socket.socket | None:
    """Return a connection after one answer, or None if the server closed it before."""
    connection = served.connect(GET + b"\r\n")
    return connection if one(connection) else None


def trickle(connection: socket.socket, piece: bytes, every: float) -> float:
    """Send pieces until the server closes the connection; return the seconds until then."""
    begun = time.monotonic()
    connection.settimeout(every)
    while time.monotonic() < begun + PATIENCE:
        try:
            connection.sendall(piece)
            if not connection.recv(65536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begun


def test_an_ordinary_request_is_answered_and_its_connection_kept(serve):
    connection = serve().connect()
    for _ in range(3):
        connection.sendall(GET + b"\r\n")
        assert one(connection).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET], ids=["nothing", "a piece", "no end"])
def test_a_connection_without_a_head_is_closed(serve, sent):
    served = serve(head=SHORT)
    assert whole(served.connect(sent)) == b""
    eventually(lambda: served.open == 0)


def test_a_head_that_trickles_is_cut_off(serve):
    served = serve(head=SHORT)
    assert trickle(served.connect(GET), b"X-More: 1\r\n", SHORT / 10) < PATIENCE
    assert served.done == []


def test_the_next_head_of_a_kept_connection_has_a_deadline_too(serve):
    served = serve(head=1.0)
    connection = eventually(lambda: answered(served))  # on a busy machine a first head may be late
    assert trickle(connection, b"X", SHORT / 10) < PATIENCE


def test_a_body_that_trickles_is_408_and_nothing_is_done(serve):
    served = serve(body_seconds=SHORT, body=2 * SHORT)
    connection = served.connect(POST + b'{"a":')
    assert connection.recv(65536).startswith(b"HTTP/1.1 408 Request Timeout")
    assert trickle(connection, b" ", SHORT / 10) < PATIENCE  # nor does the rest of it keep the connection
    assert served.done == []


def test_a_body_that_nothing_reads_is_cut_off(serve):
    served = serve(body=SHORT)
    assert trickle(served.connect(POST), b" ", SHORT / 10) < PATIENCE
    eventually(lambda: served.open == 0)
    assert served.done == []


def test_a_client_that_leaves_in_the_middle_of_a_body_has_asked_for_nothing(serve):
    served = serve()
    served.connect(POST + b'{"a": 1}').close()
    eventually(lambda: served.open == 0)
    assert one(served.connect(GET + b"\r\n"))
    assert served.done == [""]  # of the GET


def test_an_answer_that_is_not_read_is_cut_off(serve):
    served = serve(unread=SHORT)
    connection = served.connect(UNREAD, receive_buffer=4096)
    eventually(lambda: served.done)
    eventually(lambda: served.open == 0)
    assert len(whole(connection)) < 30_000_000


def test_a_reader_that_makes_progress_is_not_cut_off_and_one_that_makes_none_is(serve):
    served = serve()
    client = served.connect(UNREAD, receive_buffer=4096)
    connection = eventually(lambda: next(iter(served.server.server_state.connections), None))
    buffered = connection.transport.get_write_buffer_size
    eventually(buffered)
    at_check = buffered()
    while buffered() > at_check - connection._limits.progress:
        assert client.recv(65536)

    def is_cut_off():
        checked = threading.Event()
        connection.loop.call_soon_threadsafe(lambda: (connection._check_reading(), checked.set()))
        assert checked.wait(PATIENCE)
        return connection.transport.is_closing()

    assert not is_cut_off()
    eventually(is_cut_off)


@pytest.mark.parametrize(
    "head",
    [
        GET + b"X-Long: " + b"x" * 40_000 + b"\r\n\r\n",
        GET + b"X-Unfinished: " + b"x" * 40_000,
        GET + b"".join(b"X-%d: 1\r\n" % number for number in range(100)) + b"\r\n",
        b"GET /?" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["whole", "unfinished", "many", "address"],
)
def test_a_large_head_is_431(serve, head):
    served = serve()
    assert whole(served.connect(head)).startswith(b"HTTP/1.1 431 Request Header Fields Too Large")
    assert served.done == []


def test_what_is_no_http_is_400(serve):
    assert whole(serve().connect(b"\x16\x03\x01 hello\r\n\r\n")).startswith(b"HTTP/1.1 400")


def test_a_body_that_breaks_the_rules_after_its_answer_is_no_traceback(serve):
    served = serve(body_seconds=SHORT)
    connection = served.connect(CHUNKED)
    assert connection.recv(65536).startswith(b"HTTP/1.1 408")
    connection.sendall(b"this is no chunk\r\n")
    whole(connection)
    eventually(lambda: served.open == 0)


def test_a_full_server_drops_the_connection_that_has_waited_longest_for_a_head(serve):
    served = serve(connections=3)
    first, *others = [served.connect(GET) for _ in range(3)]
    eventually(lambda: served.open == 3)
    newcomer = served.connect()
    assert whole(first) == b""
    for connection in (*others, newcomer):
        connection.sendall(b"\r\n" if connection is not newcomer else GET + b"\r\n")
        assert one(connection)


@pytest.mark.parametrize("sent", [b"", GET, POST, CHUNKED, UNREAD, STREAM])
def test_clients_that_are_waited_for_do_not_keep_others_out(serve, sent):
    served = serve(connections=3)
    for _ in range(3):
        served.connect(sent, receive_buffer=4096)
    waiting = eventually(lambda: getattr(served.server.config, "http_protocol_class", None)).args[1]
    for n in range(5):
        # A new connection waits for its head; one that is answered waits again when its client reads too slowly.
        answered = 3 + 2 * n if sent in (UNREAD, STREAM) else 0
        eventually(lambda answered=answered: len(waiting) == 3 and len(served.done) >= answered)
        answer = whole(served.connect(GET + b"Connection: close\r\n\r\n"))
        assert answer.startswith(b"HTTP/1.1 200")
        served.connect(sent, receive_buffer=4096)


def test_a_full_server_whose_connections_are_all_at_work_drops_the_new_one(serve):
    served = serve(connections=2)
    busy = [served.connect(b"GET /?hold=1 HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
    eventually(lambda: len(served.done) == 2)
    assert whole(served.connect(GET + b"\r\n")) == b""
    served.release.set()
    for connection in busy:
        assert one(connection)


def test_a_stop_does_not_wait_for_half_sent_requests(serve, caplog):
    served = serve()
    half = [served.connect(GET), served.connect(POST), served.connect()]
    eventually(lambda: served.open == 3)
    served.server.stop()
    assert [whole(connection) for connection in half] == [b""] * 3
    served.stop()
    assert "running task" not in caplog.text  # it would be cancelled after 5 s


def test_the_number_of_connections_leaves_files_for_the_rest(monkeypatch):
    def here(files: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
        return HttpLimits.here().connections

    assert [here(files) for files in (1024, 20_000, 64, resource.RLIM_INFINITY)] == [924, 1000, 10, 1000]


def test_uvicorn_still_has_the_hooks_that_the_limits_are_built_on():
    """If uvicorn renamed these methods, ours would never be called, and no other test would fail."""
    hooks = ["connection_made", "connection_lost", "handle_events", "send_400_response", "pause_writing",
             "resume_writing", "shutdown"]  # fmt: skip
    for name in hooks:
        ours, theirs = getattr(Connection, name), getattr(H11Protocol, name)
        assert ours is not theirs
        assert [*inspect.signature(ours).parameters] == [*inspect.signature(theirs).parameters]
    calls = inspect.getsource(H11Protocol)
    for used in (
        "self.handle_events()",
        "self.send_400_response(",
        "self.conn.next_event()",
        "self.connections",
    ):
        assert used in calls
    assert {"IDLE", "SEND_BODY", "SEND_RESPONSE"} <= set(dir(h11))
