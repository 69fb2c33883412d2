"""A web server on this host with prepared answers, which records requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.waiting import PATIENCE


class Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"hello"
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # before it answers


class Server:
    """Server that gives `answers` one after the other (the last one for ever), or by path."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.answers: list[Answer] = [Answer()]
        self.at: dict[str, Answer] = {}
        self.over = threading.Event()

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if asked.path in self.at:
            return self.at[asked.path]
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving() -> Iterator[Server]:
    class Talk(BaseHTTPRequestHandler):
        def _talk(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = server.answer(Asked(self.command, self.path, headers, body))
            server.over.wait(told.seconds)
            self.send_response(told.status)
            for name, value in {"content-length": str(len(told.body)), **told.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told.body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _talk  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Talk)
    listening.daemon_threads = True
    server = Server(listening.server_port)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        listening.shutdown()
        listening.server_close()
        thread.join(PATIENCE)
