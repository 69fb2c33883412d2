"""The probe of a worker: `/livez`, `/readyz` and `/metrics`, without FastAPI.

It answers on threads of its own, so that it can say that the event loop stands still. Liveness never asks the database:
a worker that waits for its database must not be restarted. Readiness is the lease, as this process knows it.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from ostinato.config import Settings
from ostinato.config.kinds import ADDRESS
from ostinato.core.errors import Forbidden, InvalidSetting, OstinatoError, Unauthorized
from ostinato.core.payload import LogMessage

if TYPE_CHECKING:
    from ostinato.app.app import Ostinato
    from ostinato.app.probe_metrics import MetricsDoor
    from ostinato.engine.engine import Engine

BEAT: Final = 0.25  # seconds between two signs of the event loop
AT_ONCE: Final = 32  # connections; more are closed
PATIENCE: Final = 5.0  # seconds for a request to arrive
POLL: Final = 0.1  # seconds between two looks at whether it shall stop
PATHS: Final = "/livez, /readyz or /metrics"
NOT_STARTED: Final = "This worker has not started: it opens the database, or waits for it."
LOG: Final = logging.getLogger("ostinato")

Watch = Callable[["Ostinato", "Engine"], None]


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Status, body and content type of an answer."""

    status: int
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of(cls, word: str, reasons: Sequence[str]) -> "ProbeAnswer":
        """ProbeAnswer a check: 200 without reasons against it, else 503."""
        return cls(503 if reasons else 200, json.dumps({word: not reasons, "reasons": list(reasons)}).encode())

    @classmethod
    def refusal(cls, status: int, detail: str) -> "ProbeAnswer":
        return cls(status, json.dumps({"detail": detail}).encode())


def signs_of_life(loop_silent: float, lease_overdue: float, patience: float) -> list[str]:
    """Return the reasons to restart a worker, from the seconds without a sign of its loop and its lease thread."""
    found = []
    if loop_silent > patience:
        found.append(f"The event loop has stood still for {loop_silent:.0f} s: an async task blocks it.")
    if lease_overdue > patience:
        found.append("The thread that renews the lease stands still, or has ended.")
    return found


class Pulse:
    """Signs of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat()

    def _beat(self) -> None:
        self._beaten = monotonic()
        self._next = self._loop.call_later(BEAT, self._beat)

    def silent_for(self) -> float:
        return monotonic() - self._beaten

    def end(self) -> None:
        self._next.cancel()


class Probe:
    """The questions that the probe answers. Threads call it."""

    def __init__(self, pulse: Pulse, patience: float, *, on_loopback: bool) -> None:
        """`patience` is the time in seconds after which a loop counts as stuck."""
        self._pulse, self._patience, self._on_loopback = pulse, patience, on_loopback
        self._engine: Engine | None = None
        self._metrics: MetricsDoor | None = None

    def watch(self, app: "Ostinato", engine: "Engine") -> None:
        """ProbeAnswer for this engine from now on. Call it before the engine runs."""
        with suppress(ModuleNotFoundError):  # said when somebody asks for /metrics
            from ostinato.app.probe_metrics import MetricsDoor

            self._metrics = MetricsDoor(app, engine, on_loopback=self._on_loopback)
        self._engine = engine

    def answer(self, path: str, headers: Sequence[tuple[str, str]]) -> ProbeAnswer:
        match path.partition("?")[0]:
            case "/livez":
                return ProbeAnswer.of("live", self._reasons_to_restart())
            case "/readyz":
                return ProbeAnswer.of("ready", self._reasons_to_wait())
            case "/metrics":
                return self._figures(headers)
            case _:
                return ProbeAnswer.refusal(404, f"There is nothing at this address: ask for {PATHS}.")

    def _reasons_to_restart(self) -> list[str]:
        overdue = 0.0 if self._engine is None else self._engine.renewals_overdue()
        return signs_of_life(self._pulse.silent_for(), overdue, self._patience)

    def _reasons_to_wait(self) -> list[str]:
        if self._engine is None:
            return [NOT_STARTED]
        held = self._engine.worker.lease.trusted
        return ([] if held else ["This worker holds no lease."]) + self._engine.troubles()

    def _figures(self, headers: Sequence[tuple[str, str]]) -> ProbeAnswer:
        if self._engine is None:
            return ProbeAnswer.refusal(503, NOT_STARTED)
        if self._metrics is None:
            return ProbeAnswer.refusal(501, 'Metrics need prometheus-client: pip install "ostinato[server]".')
        try:
            return ProbeAnswer(200, *self._metrics.written(headers))
        except OstinatoError as error:
            refused = {Unauthorized: 401, Forbidden: 403}
            return ProbeAnswer.refusal(refused.get(type(error), 503), str(error))


@contextmanager
def probing(settings: Settings, *, has_http: bool) -> Iterator[Watch]:
    """Serve the probe at the address of the settings until the end; a process with HTTP needs none."""
    if not settings.probe or has_http:
        yield lambda app, engine: None
        return
    pulse = Pulse()
    server = ProbeServer(settings.probe, pulse, settings.lease.total_seconds())
    thread = Thread(target=server.serve_forever, args=(POLL,), name="ostinato-probe", daemon=True)
    thread.start()
    LOG.info(LogMessage("Probe listens", {"address": server.url}))
    try:
        yield server.probe.watch
    finally:
        pulse.end()
        server.shutdown()
        server.server_close()


class ProbeServer(ThreadingHTTPServer):
    """Small server of HTTP/1.0: each connection asks once, on a thread."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = AT_ONCE

    def __init__(self, address: str, pulse: Pulse, patience: float) -> None:
        found = ADDRESS.fullmatch(address)
        assert found is not None
        host = (found["host"] or "127.0.0.1").strip("[]")
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, int(found["port"])), _ProbeRequest)
        except OSError as error:
            raise InvalidSetting(
                f"The probe cannot listen on {address}: {error.strerror}. Choose another port."
            ) from None
        self._places = BoundedSemaphore(AT_ONCE)
        bound = str(self.server_address[0]).partition("%")[0]
        self.probe = Probe(pulse, patience, on_loopback=ip_address(bound).is_loopback)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if self.address_family == socket.AF_INET6 else f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        """Bind without the reverse lookup of the name, which may wait for a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug("A request of the probe failed", exc_info=True)  # a client that has gone, mostly


class _ProbeRequest(BaseHTTPRequestHandler):
    """One request of a probe."""

    server: ProbeServer
    timeout = PATIENCE

    def do_GET(self) -> None:
        answer = self.server.probe.answer(self.path, self.headers.items())
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: probes come every few seconds."""
