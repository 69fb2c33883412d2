"""A crawl of 10,000 pages: its memory does not grow with the site."""

from __future__ import annotations

import asyncio
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ostinato import Ostinato
from ostinato.features.crawling.service import CrawledPageService

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PAGES = 10_000
WORDS = "lighthouse keeper lamp storm harbour " * 150  # some 5 kB


class Visitor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = re.fullmatch(r"/(\d+)", self.path)
        n = int(found[1]) if found else 0
        links = "".join(f'<a href="/{c}">{c}</a>' for c in (*range(3 * n + 1, 3 * n + 4), n // 2) if c < PAGES)
        body = f"<html><title>Page {n}</title><body>number{n} {WORDS}{links}</body></html>".encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_memory_of_a_crawl_of_10_000_pages_stays_small(database_url, record_property):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Visitor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    app = Ostinato("shop", database_url=database_url, allow_private_addresses=True)
    app.open(upgrade=True)

    async def main():
        async with app.running():
            url = f"http://127.0.0.1:{server.server_port}/0"
            args = {"url": url, "delay": 0, "concurrency": 8, "max_pages": 20_000, "sitemaps": False}
            (handle,) = app.enqueue([app.call("crawl", **args)])
            return await handle.await_(1700)

    ended = asyncio.run(main())
    record_property("memory_peak_mb", ended.memory_peak_mb)
    record_property("seconds", ended.duration.total_seconds())
    record_property("cpu_seconds", ended.cpu_time_ms / 1000)
    assert (ended.status, ended.items_crawled) == ("completed", PAGES)
    assert ended.memory_peak_mb < 300
    assert app.scheduler.part(CrawledPageService).search("number4321").total == 1
    app.close()
    server.shutdown()
    server.server_close()
