"""The HTTP server in the process of an app, and the limits of its connections."""

import asyncio
import resource
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import h11
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from ostinato.access.requests import BODY_SECONDS
from ostinato.app.listening import BACKLOG
from ostinato.app.starting import BESIDE_AN_ENGINE
from ostinato.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp


# -- HTTP connections with limits, as uvicorn's protocol does not limit slow, silent or too many clients.
#
# A connection is in one of three phases: "head" and "body", in which the client sends, and "idle", in which the app
# answers or no request has begun. A head and a body each have a deadline. The reader of bodies (access/requests.py)
# answers 408 before the deadline of a body. The client must also read each answer within a deadline.
#
# A full server closes the connection that has waited longest for its client: for a head, a body, the next
# request, or until the client reads an answer. A request that the app works on is never closed for a newer one.

KIB: Final = 1024
RESERVED_FILES: Final = 100  # file descriptors for the database and everything else
MOST_CONNECTIONS: Final = 1000
FEWEST: Final = 10  # connections, even if a process may open very few files
TOO_LARGE: Final = 431

Phase = Literal["head", "body", "idle"]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of connections; times are in seconds."""

    head: float = 10.0  # from accept, or from the first byte of the next request
    body: float = BODY_SECONDS + 5.0
    unread: float = 30.0  # for each `progress` bytes of an answer
    progress: int = 32 * KIB
    head_bytes: int = 32 * KIB
    headers: int = 100
    connections: int = MOST_CONNECTIONS

    @classmethod
    def here(cls) -> "HttpLimits":
        """Limit the connections by the number of files that this process may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls()
        return cls(connections=max(min(MOST_CONNECTIONS, files - RESERVED_FILES), FEWEST))


class _Heads(h11.Connection):
    """Parser of requests that refuses large heads."""

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__(h11.SERVER, limits.head_bytes)
        self._limits = limits
        self.refusal = 400  # status of the last refusal

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request) and self._is_large(event):
                raise h11.RemoteProtocolError("The head is too large", error_status_hint=TOO_LARGE)
        except h11.RemoteProtocolError as error:
            self.refusal = error.error_status_hint
            raise
        return event

    def _is_large(self, head: h11.Request) -> bool:
        """Check the size of a head: h11 itself limits only heads that arrive in several pieces."""
        size = len(head.target) + sum(len(name) + len(value) for name, value in head.headers)
        return len(head.headers) > self._limits.headers or size > self._limits.head_bytes


class Connection(H11Protocol):
    """One connection of a client."""

    def __init__(self, limits: HttpLimits, waiting: "OrderedDict[Connection, None]", **uvicorns: Any) -> None:
        """`waiting` holds all connections of a server that wait for their client, the longest waiting first."""
        super().__init__(**uvicorns)
        self.conn: _Heads = _Heads(limits)
        self._limits, self._waiting = limits, waiting
        self._phase: Phase = "idle"
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unsent = 0

    # -- hooks that uvicorn and asyncio call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that each unsent byte counts as paused
        self._enter("head")
        if len(self.connections) > self._limits.connections:
            longest, _ = self._waiting.popitem(last=False)
            longest.transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # the app must not answer on this connection any more
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
        elif self.conn.refusal == TOO_LARGE:
            self._refuse(TOO_LARGE, b"The head of the request is too large.")
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._waiting.setdefault(self)
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._reading)
        self._watch()

    def shutdown(self) -> None:
        super().shutdown()
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._waiting.pop(self, None)
        _cancel(self._deadline)
        _cancel(self._reading)

    # -- deadlines

    def _watch(self) -> None:
        """Update the phase of this connection. Between two requests it has no deadline here."""
        if self.conn.their_state is h11.SEND_BODY:
            self._enter("body")
        elif self.conn.their_state is h11.IDLE:
            self._waiting.setdefault(self)
            if self._phase == "body" or self.conn.trailing_data[0]:
                self._enter("head")
        else:
            self._enter("idle")
            if not self.flow.write_paused:
                self._waiting.pop(self, None)

    def _enter(self, phase: Phase) -> None:
        if phase == self._phase:
            return
        _cancel(self._deadline)
        self._phase = phase
        if phase != "idle":
            self._waiting[self] = None
            self._waiting.move_to_end(self)
            seconds = self._limits.head if phase == "head" else self._limits.body
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _expect_reading(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self._limits.unread, self._check_reading)

    def _check_reading(self) -> None:
        if self._unsent - self.transport.get_write_buffer_size() < self._limits.progress:
            self.transport.abort()
        else:
            self._expect_reading()

    def _refuse(self, status: int, sentence: bytes) -> None:
        head = h11.Response(
            status_code=status,
            headers=[(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")],
            reason=STATUS_PHRASES[status],
        )
        for event in (head, h11.Data(data=sentence), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


# -- The HTTP server in the process of an app, beside its engine

STOP_TIMEOUT: Final = 5  # seconds to finish open answers at a stop; then streams are cut
ACCEPTED_AT_ONCE: Final = 10  # in one turn of the loop; after four turns excess connections are closed


class HttpServer(uvicorn.Server):
    """Server of an app on a bound socket. Its caller handles the signals."""

    def __init__(
        self,
        app: "ASGIApp",
        bound: socket.socket,
        threads: int = BESIDE_AN_ENGINE,
        limits: HttpLimits | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Connection, limits or HttpLimits.here(), OrderedDict())),
                lifespan="off",
                ws="none",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_TIMEOUT,
                backlog=ACCEPTED_AT_ONCE,
            )
        )
        self._bound, self._threads = bound, threads
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Start to serve on the running loop; the task ends when the server has stopped."""
        if self._serving is None:
            current_default_thread_limiter().total_tokens = self._threads
            self._serving = asyncio.create_task(self.serve([self._bound]))
        return self._serving

    async def close(self) -> None:
        """Stop, if it has started."""
        if self._serving is not None and not self._serving.done():
            self.stop()
            await self._serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept. `backlog` limits what asyncio accepts in one turn; the socket has a longer queue."""
        await super().startup(sockets)
        self._bound.listen(BACKLOG)

    def stop(self) -> None:
        """Accept no new requests and finish open answers; the second call stops at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_beside(engine: Engine, server: HttpServer) -> None:
    """Serve and work until both have stopped; if one stops, stop the other."""
    serving = server.start()
    working = asyncio.create_task(engine.run())
    await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
    if not server.should_exit:  # not a requested stop: one of them has failed
        server.stop()
        if not working.done():
            engine.stop()
    await asyncio.gather(serving, working)
