"""A small real HTTP server that plays the APIs of others: each way of paging, and each way of going wrong.

with PlayedApi(records=250) as api:
    api.url("/page")          # ?page=2&limit=100, {"items": […], "more": true}
    api.requests              # every request so far: path and query
"""

import gzip
import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.waiting import PATIENCE


def a_record(number: int) -> dict[str, Any]:
    """The record of a number, the same whenever it is asked for."""
    return {
        "id": number,
        "day": f"2026-01-{number % 28 + 1:02}",
        "value": number + 0.5,
        "name": f"record {number}",
        "tags": {"odd": bool(number % 2)},
    }


class PlayedApi:
    """A server in threads of this process."""

    def __init__(self, records: int = 25, limit: int = 10) -> None:
        self.records, self.limit = records, limit
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.sent: list[bytes] = []  # the bodies of requests
        self.bodies: dict[str, Any] = {}  # further paths: a value, or a function of the handler
        self.go_on = threading.Event()  # what hangs waits for this
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "PlayedApi":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def asked(self, path: str) -> list[dict[str, str]]:
        """The queries of the requests for a path."""
        return [query for where, query in self.requests if where == path]

    def slice(self, first: int, count: int) -> list[dict[str, Any]]:
        return [a_record(number) for number in range(first, min(first + count, self.records))]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    api: PlayedApi


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.api.sent.append(self.body)
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.api = self.server.api
        self.api.requests.append((parts.path, self.query))
        self.api.headers.append({name.lower(): value for name, value in self.headers.items()})
        play = self.api.bodies.get(parts.path, PLAYS.get(parts.path))
        if play is None:
            self.answer({"error": "nothing here"}, 404)
        elif callable(play):
            play(self)
        else:
            self.answer(play)

    def answer(self, value: Any, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", headers.pop("content_type", "application/json"))
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    @property
    def limit(self) -> int:
        return int(self.query.get("limit", self.api.limit))


def by_page(handler: Handler) -> None:
    page = int(handler.query.get("page", 1))
    items = handler.api.slice((page - 1) * handler.limit, handler.limit)
    handler.answer({"data": {"items": items}, "more": page * handler.limit < handler.api.records})


def by_offset(handler: Handler) -> None:
    handler.answer(handler.api.slice(int(handler.query["offset"]), handler.limit))


def by_cursor(handler: Handler) -> None:
    first = int(handler.query.get("cursor", "c0")[1:])
    following = first + handler.limit
    more = f"c{following}" if following < handler.api.records else None
    handler.answer({"items": handler.api.slice(first, handler.limit), "paging": {"next": more}})


def by_link(handler: Handler) -> None:
    first = int(handler.query.get("from", 0))
    following = first + handler.api.limit
    links = {"Link": f'</link?from={following}>; rel="next"'} if following < handler.api.records else {}
    handler.answer(handler.api.slice(first, handler.api.limit), **links)


def by_url(handler: Handler) -> None:
    first = int(handler.query.get("from", 0))
    following = first + handler.api.limit
    more = handler.api.url(f"/url?from={following}") if following < handler.api.records else None
    handler.answer({"items": handler.api.slice(first, handler.api.limit), "next": more})


def hangs_after_three(handler: Handler) -> None:
    if int(handler.query.get("page", 1)) > 3:
        handler.api.go_on.wait(PATIENCE)
    by_page(handler)


def resets(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def bomb(handler: Handler) -> None:
    """A few kilobytes that unpack to 300 megabytes."""
    packed = gzip.compress(b"[" + b" " * 30_000_000 + b"]", 9)
    handler.answer(packed, content_type="application/json", Content_Encoding="gzip")


def same_cursor(handler: Handler) -> None:
    number = len(handler.api.asked("/same-cursor"))
    handler.answer({"items": [a_record(number)], "paging": {"next": "again"}})


def same_page(handler: Handler) -> None:
    handler.answer({"data": {"items": handler.api.slice(0, 5)}, "more": True, "page": handler.query.get("page")})


def slow_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    try:
        handler.wfile.write(b"[")
        for _ in range(600):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            if handler.api.go_on.wait(0.1):
                return
    except OSError:
        return


def gzipped(handler: Handler) -> None:
    body = gzip.compress(json.dumps(handler.api.slice(0, 5)).encode())
    handler.answer(body, Content_Encoding="gzip")


def redirects_inside(handler: Handler) -> None:
    """To what nobody may call, not even where private addresses are allowed."""
    handler.answer(b"", 302, Location="http://169.254.169.254/latest/meta-data")


def stamped(handler: Handler) -> None:
    handler.answer([{"id": 1, "value": time.time()}])


PLAYS = {
    "/page": by_page,
    "/offset": by_offset,
    "/cursor": by_cursor,
    "/link": by_link,
    "/url": by_url,
    "/hang": hangs_after_three,
    "/500": lambda handler: handler.answer({"error": "out of order"}, 500),
    "/404": lambda handler: handler.answer({"error": "no such series"}, 404),
    "/429": lambda handler: handler.answer({"error": "slow down"}, 429, Retry_After="120"),
    "/reset": resets,
    "/broken": lambda handler: handler.answer(b'[{"id": 1}, {"id":'),
    "/html": lambda handler: handler.answer(b"<html><h1>Sign in</h1></html>", content_type="text/html"),
    "/bomb": bomb,
    "/same-cursor": same_cursor,
    "/same-page": same_page,
    "/slow": slow_body,
    "/gzip": gzipped,
    "/to-metadata": redirects_inside,
    "/stamped": stamped,
}


def a_source_of(url: str, name: str = "things", table: str = "things", path: str = ".", **more: Any) -> dict[str, Any]:
    """A definition of a source of this API; its rows are told apart by the number of their record."""
    return {
        "name": name,
        "url": url,
        "table": table,
        "response": {
            "dataPath": path,
            "fields": [
                {"source": "id", "target": "number", "type": "integer"},
                {"source": "value", "target": "amount", "type": "number"},
                {"source": "name", "target": "title"},
            ],
            "unique": ["number"],
        },
        **more,
    }
