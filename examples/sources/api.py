"""A bundled API for the example sources: `python -m examples.sources.api`.

It has three small APIs with different paging: exchange rates by numbered pages, earthquakes by cursor, and books by the
Link header. It also has a site of four pages to crawl. Each hour adds data, and old data stay the same, so a second
fetch stores only new rows.
"""

import json
import sys
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PORT = 8070
HOUR = 3600
MINUTE = timedelta(minutes=1)
SITE = {
    "": ("A small shop", "Apples and pears, fresh every morning. See our <a href='apples'>apples</a>."),
    "apples": ("Apples", "Red, green and yellow ones. The <a href='pears'>pears</a> are new."),
    "pears": ("Pears", "Sweet and soft. How to <a href='order'>order</a>."),
    "order": ("How to order", "Call us, or come by. Back to the <a href='/site/'>shop</a>."),
}


def rates() -> list[dict[str, Any]]:
    """Return a rate of each currency for each of the last 48 hours."""
    now = int(time.time()) // HOUR
    return [
        {"at": hour * HOUR, "currency": {"code": code}, "rate": round(base + (hour * 7 % 13) / 1000, 4)}
        for hour in range(now - 48, now + 1)
        for code, base in (("EUR", 0.92), ("JPY", 149.5), ("GBP", 0.79))
    ]


def quakes() -> list[dict[str, Any]]:
    places = ("off the coast", "in the hills", "near the harbour", "under the valley")
    return [
        {
            "id": f"q{number:04}",
            "properties": {
                "mag": 2 + number % 40 / 10,
                "place": f"{number % 90 + 3} km {places[number % 4]}",
            },
            "geometry": {"coordinates": [number % 360 - 180, number % 180 - 90]},
        }
        for number in range(250)
    ]


def books() -> list[dict[str, Any]]:
    return [
        {
            "isbn": f"978-0-{number:06}",
            "title": f"Volume {number}",
            "published": f"{1950 + number % 75}-05-01",
        }
        for number in range(60)
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/rates":
                page, size = int(query.get("page", 1)), int(query.get("size", 50))
                found = rates()
                self._answer({"data": found[(page - 1) * size : page * size], "has_more": page * size < len(found)})
            case "/quakes":
                first, found = int(query.get("after", 0)), quakes()
                following = first + 100
                more = str(following) if following < len(found) else None
                self._answer({"features": found[first:following], "next": more})
            case "/books":
                first, found = int(query.get("from", 0)), books()
                link = {"Link": f'</books?from={first + 25}>; rel="next"'} if first + 25 < len(found) else {}
                self._answer(found[first : first + 25], link)
            case path if path.startswith("/site/") and path[6:] in SITE:
                title, text = SITE[path[6:]]
                page = f"<!doctype html><title>{title}</title><main><h1>{title}</h1><p>{text}</p></main>"
                self._send(page.encode(), "text/html; charset=utf-8")
            case _:
                self.send_error(404)

    def _answer(self, value: Any, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), "application/json", headers)

    def _send(self, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def start(port: int = PORT) -> ThreadingHTTPServer:
    """Start the API on a thread of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="example-api", daemon=True).start()
    return server


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    print(f"The example API listens on http://127.0.0.1:{port}: /rates, /quakes, /books")
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
