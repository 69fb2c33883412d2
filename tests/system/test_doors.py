"""The doors of a real process: who is let in, who is told, and what ends when it stops."""

import hashlib
import hmac
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ostinato.access.tokens import Tokens
from ostinato.clock import SystemClock
from ostinato.config import Settings
from ostinato.core.access import Role
from tests.acceptance.server import PATIENCE, Server
from tests.build import HOUR

SECRET = "0123456789abcdef0123456789abcdef"


def until(true, what: str):
    end = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


@pytest.fixture
def start(tmp_path, empty_database_url) -> Iterator:
    started: list[Server] = []

    def start(*flags: str, **environment: str) -> Server:
        server = Server(tmp_path, empty_database_url, *flags, OSTINATO_HTTP_PROCESS="on", **environment)
        started.append(server)
        until(server.ready, "the server does not start")
        return server

    yield start
    for server in started:
        server.kill()


class Listener(ThreadingHTTPServer):
    """Hears POSTs and GETs, and answers them with 200."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        heard = self.heard

        class Ear(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                heard.append((self.path, dict(self.headers), body))
                self.send_response(200)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Ear)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.shutdown()
    listener.server_close()


def stream(server: Server, **headers: str):
    request = urllib.request.Request(
        f"{server.address}/api/v1/events", headers={"Accept": "text/event-stream", **headers}
    )
    return urllib.request.urlopen(request, timeout=PATIENCE)


def test_without_auth_a_server_does_not_listen_beyond_this_host(tmp_path, empty_sqlite_url):
    server = Server(tmp_path, empty_sqlite_url, "--host", "0.0.0.0")
    assert server.end() == 2
    assert "--insecure" in server.log
    assert "Traceback" not in server.log


def test_told_that_it_is_meant_it_does(start):
    server = start("--host", "0.0.0.0", "--insecure")
    port = server.address.rpartition(":")[2]
    server.address = f"http://127.0.0.1:{port}"
    assert server("GET", "/api/v1/jobs").code == 200
    assert "  auth      NONE: other hosts have full access" in server.log


def test_with_auth_a_credential_opens_the_door(start):
    server = start(OSTINATO_AUTH_SECRET=SECRET)
    assert server("GET", "/api/v1/jobs").code == 401
    assert server("GET", "/nowhere").code == 401
    assert server("GET", "/healthz").code == 200
    until(lambda: server("GET", "/readyz").code == 200, "it is not ready")
    token = Tokens.of(Settings(auth_secret=SECRET)).issue("ann", Role.VIEWER, SystemClock().now(), HOUR)
    request = urllib.request.Request(f"{server.address}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert b"ostinato_jobs" in answer.read()
    assert "  auth      tokens and API keys" in server.log
    assert SECRET not in server.log
    assert token not in server.log


def test_a_stream_hears_a_run_and_ends_with_the_server(start):
    server = start()
    with stream(server) as lines:
        assert lines.readline().startswith(b"retry:")
        job = server("POST", "/api/v1/jobs", {"task": "fine", "schedule_enabled": False}).body["id"]
        told = b""
        while b"execution.finished" not in told:
            told += lines.readline()
        assert job.encode() in told
        server.ask_to_stop()
        assert lines.read() is not None  # to the end, which comes
    assert server.end() == 0
    assert "Traceback" not in server.log


def test_a_hook_is_told_of_a_failure_and_the_heart_beats(start, listener):
    server = start(
        OSTINATO_ALLOW_PRIVATE_ADDRESSES="on",
        OSTINATO_HEARTBEAT_URL=f"{listener.url}/beat",
        SECRET_HOOK="between us",
    )
    hook = {
        "url": f"{listener.url}/hook",
        "kinds": ["failure", "failed_for_good"],
        "secret": "env:SECRET_HOOK",
    }
    made = server("POST", "/api/v1/hooks", hook)
    assert made.code == 201, made.body
    server("POST", f"/api/v1/hooks/{made.body['id']}/test")  # delivered: the process of the engine knows the hook now
    until(lambda: any(path == "/hook" for path, _, _ in list(listener.heard)), "the hook is not tried")
    job = server("POST", "/api/v1/jobs", {"task": "fails", "schedule_enabled": False, "max_retries": 0}).body["id"]

    def told() -> list[dict]:
        found = [json.loads(body) for path, _, body in list(listener.heard) if path == "/hook"]
        return [body for body in found if body["kind"] != "test"]

    until(lambda: len(told()) == 2, "the hook is not told")
    assert {(body["kind"], body["job"]["id"]) for body in told()} == {
        ("failure", job),
        ("failed_for_good", job),
    }
    _, headers, body = next(each for each in listener.heard if each[0] == "/hook")
    signed = headers["Ostinato-Timestamp"].encode() + b"." + body
    assert headers["Ostinato-Signature"] == "v1=" + hmac.new(b"between us", signed, hashlib.sha256).hexdigest()
    until(lambda: any(path == "/beat" for path, _, _ in list(listener.heard)), "the heart does not beat")
    until(lambda: server("GET", f"/api/v1/hooks/{made.body['id']}").body["delivered"] == 3, "nothing was noted")
    assert server.terminate() == 0
    assert "Traceback" not in server.log
