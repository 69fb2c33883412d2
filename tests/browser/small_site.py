"""A site of a few pages on this host, to be crawled."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.waiting import PATIENCE


@contextmanager
def a_small_site(pages: Mapping[str, str]) -> Iterator[str]:
    """Its address; every other page is missing."""

    class Visitor(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(urlsplit(self.path).path)
            body = (page or "").encode()
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Visitor)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


LIGHTHOUSES = {
    "/": """<title>Lighthouses of the coast</title><meta name="description" content="Towers and keepers.">
        <h1>Lighthouses</h1><p>Every lamp on this coast, from the first fire of wood to the last keeper who went home.
        <a href="/keepers">keepers</a> <a href="/lamps">lamps</a> <a href="/towers">towers</a> <a href="/x">fog</a>""",
    "/keepers": """<title>The last keepers</title><p>The last keeper of the eastern tower lit the lamp by hand until the
        winter of 1987. Each evening he climbed the 212 steps, trimmed the wick and wrote the hour into the book.""",
    "/lamps": """<title>Lamps and lenses</title><p>A lamp of oil is seen for eight miles; behind a lens of the first
        order the same lamp is seen for twenty. The lens weighs five tons and floats on mercury.""",
    "/towers": """<title>Towers of stone</title><p>Granite, oak and lead: how the towers were built that stand in the
        sea. The lamp was carried up last.""",
}
