"""A site of 500 pages with loops, traps, redirects, rules and wrong data, which records its visitors."""

from __future__ import annotations

import gzip
import re
import select
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.waiting import PATIENCE

TREE = 440  # pages of a tree, nine deep
IN_SITEMAPS = 20
DEPTH = 12
CALENDAR = DEPTH  # months that are not too far
ABANDONED = ("/slow", "/huge", "/bomb")  # a visitor leaves before their end, and the server notices it late

ROBOTS = """
User-agent: *
Disallow: /private/
Allow: /private/but-this
Sitemap: /sitemap_index.xml
"""


class Hit(NamedTuple):
    at: float
    path: str
    agent: str
    conditional: bool


class Site:
    """The site and its recorded visits. `changed` are paths with new text, `gone` are deleted paths."""

    def __init__(self) -> None:
        self.hits: list[Hit] = []
        self.changed: set[str] = set()
        self.gone: set[str] = set()
        self.robots = ROBOTS
        self.hold = threading.Event()  # set: pages are answered
        self.hold.set()
        self.under_way = self.most_under_way = self._waited_for = 0
        self._turn = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Visitor)
        self._server.site = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def asked(self) -> Counter[str]:
        """Count the requests of each path."""
        return Counter(hit.path for hit in self.hits)

    def arrive(self, hit: Hit) -> None:
        with self._turn:
            self.hits.append(hit)
            self.under_way += 1
            self._waited_for += hit.path not in ABANDONED
            self.most_under_way = max(self.most_under_way, self._waited_for)

    def leave(self, hit: Hit) -> None:
        with self._turn:
            self.under_way -= 1
            self._waited_for -= hit.path not in ABANDONED


@contextmanager
def a_site() -> Iterator[Site]:
    site = Site()
    site.start()
    try:
        yield site
    finally:
        site.close()


def expected() -> set[str]:
    """Every page that a polite crawl of depth 12 stores, good or not."""
    tree = {f"/p/{n}" for n in range(TREE)}
    sitemaps = {f"/s/{n}" for n in range(IN_SITEMAPS)}
    months = {f"/calendar/{n}" for n in range(1, CALENDAR + 1)}
    odd = {
        "/", "/list?a=1&b=2", "/about/", "/redirected", "/dup", "/latin", "/cyrillic", "/lies", "/data",
        "/plain.txt", "/flaky", "/nofollow", "/item", "/private/but-this", "/lone%20space", "/odd", "/from-odd",
    }  # fmt: skip
    return tree | sitemaps | months | odd


def troubled() -> set[str]:
    """Pages without content, only with an error."""
    return {"/huge", "/bomb", "/slow", "/missing", "/broken", "/noindex", "/no-charset"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    site: Site

    def handle_error(self, *_: object) -> None:
        """A crawler may disconnect at any time."""


class _Visitor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        site, headers = self.server.site, self.headers
        conditional = "If-None-Match" in headers or "If-Modified-Since" in headers
        self.hit: Hit | None = Hit(time.monotonic(), self.path, headers.get("User-Agent", ""), conditional)
        site.arrive(self.hit)
        try:
            site.hold.wait(PATIENCE)
            self._answer(site)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self._leave()

    def _leave(self) -> None:
        hit, self.hit = self.hit, None
        if hit is not None:
            self.server.site.leave(hit)

    def _answer(self, site: Site) -> None:
        path = self.path
        if path in site.gone:
            return self._send(410, b"gone")
        if path == "/robots.txt":
            return self._send(200, site.robots.encode(), "text/plain")
        if found := re.fullmatch(r"/(hop|long)/(\d+)", path):
            last = 4 if found[1] == "hop" else 99
            further = f"/{found[1]}/{int(found[2]) + 1}" if int(found[2]) < last else "/redirected"
            return self._send(302, b"", more={"Location": further})
        if path in SENT_AWAY:
            return self._send(301, b"", more={"Location": SENT_AWAY[path]})
        if path in ("/sitemap_index.xml", "/sitemap1.xml", "/sitemap2.xml.gz"):
            return self._sitemap(path)
        return self._page(site, path)

    def _page(self, site: Site, path: str) -> None:
        match path:
            case "/huge":
                self._send(200, page("Huge", "x" * 3_000_000))
            case "/bomb":
                self._send(200, gzip.compress(b" " * 30_000_000), more={"Content-Encoding": "gzip"})
            case "/slow":
                select.select([self.connection], [], [], PATIENCE)  # until the crawler has disconnected
                self._send(200, page("Slow", "too late"))
            case "/flaky" if site.asked()["/flaky"] == 1:
                self._send(503, b"not yet", more={"Retry-After": "0"})
            case "/broken":
                self._send(500, b"broken")
            case "/latin":
                self._send(200, page("Café", "Crème brûlée").encode_as("latin-1"), "text/html; charset=latin-1")
            case "/cyrillic":
                head = '<meta charset="windows-1251">'
                self._send(200, page("Поезд", "Железная дорога", head=head).encode_as("cp1251"), "text/html")
            case "/lies":
                self._send(200, page("Lies", "naïve").encode_as("latin-1"), "text/html; charset=utf-8")
            case "/no-charset":
                self._send(200, page("Unread", "unread"), "text/html; charset=base64")
            case "/data":
                self._send(200, b"\x00\x01\x02" * 1000, "application/octet-stream")
            case "/plain.txt":
                self._send(200, b"A plain text about windmills", "text/plain")
            case _:
                self._known(site, path)

    def _known(self, site: Site, path: str) -> None:
        body = body_of(path, site)
        if body is None:
            return self._send(404, b"no such page")
        etag = f'"{len(body)}-{path in site.changed}"'
        if path.startswith("/p/") and self.headers.get("If-None-Match") == etag:
            return self._send(304, b"", more={"ETag": etag})
        return self._send(200, body, more={"ETag": etag} if path.startswith("/p/") else {})

    def _sitemap(self, path: str) -> None:
        url, half = self.server.site.url, IN_SITEMAPS // 2
        match path:
            case "/sitemap_index.xml":
                text = entries("sitemapindex", "sitemap", [f"{url}/sitemap1.xml", f"{url}/sitemap2.xml.gz"])
            case "/sitemap1.xml":
                text = entries("urlset", "url", [f"{url}/s/{n}" for n in range(half)])
            case _:
                text = gzip.compress(entries("urlset", "url", [f"{url}/s/{n}" for n in range(half, IN_SITEMAPS)]))
        self._send(200, text, "application/gzip" if path.endswith(".gz") else "text/xml")

    def _send(
        self,
        code: int,
        body: bytes | Text,
        kind: str = "text/html; charset=utf-8",
        more: dict[str, str] | None = None,
    ) -> None:
        data = body.encode() if isinstance(body, Text) else body
        self.send_response(code)
        self.send_header("Content-Type", kind)
        if code != 304:
            self.send_header("Content-Length", str(len(data)))
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self._leave()  # before the visitor can know of the answer, and ask again
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Text(str):
    def encode_as(self, charset: str) -> bytes:
        return self.encode(charset)


SENT_AWAY = {
    "/loop/a": "/loop/b",
    "/loop/b": "/loop/a",
    "/out": "https://example.com/elsewhere",
    "/to-metadata": "http://169.254.169.254/latest/meta-data",
    "/index.html": "/never",  # never requested: it is /
}


def page(title: str, text: str, links: tuple[str, ...] = (), head: str = "", rel: str = "") -> Text:
    anchors = "".join(f'<a href="{url}"{rel}>{url}</a> ' for url in links)
    return Text(
        f'<!doctype html><html lang="en"><head><title>{title}</title>{head}<style>hidden</style></head>'
        f"<body><script>var hidden = 1;</script><h1>{title}</h1><p>{text}</p>{anchors}</body></html>"
    )


def body_of(path: str, site: Site) -> bytes | None:
    news = " breaking news" if path in site.changed else ""
    if found := re.fullmatch(r"/p/(\d+)", path):
        n = int(found[1])
        children = tuple(f"/p/{c}" for c in (2 * n + 1, 2 * n + 2) if c < TREE)
        back = (f"/p/0?utm_source=page{n}", "/#top", f"../p/{n}", "/p/./0")
        return page(f"Page {n}", f"Lighthouse number{n}{news}", (*children, *back)).encode()
    if found := re.fullmatch(r"/s/(\d+)", path):
        return page(f"Sitemap page {found[1]}", f"Only a sitemap knows me{news}").encode()
    if found := re.fullmatch(r"/calendar/(\d+)", path):
        return page(f"Month {found[1]}", "Nothing happens", (f"/calendar/{int(found[1]) + 1}",)).encode()
    made = PAGES.get(path)
    return None if made is None else made.replace("</p>", f"{news}</p>").encode()


def entries(root: str, kind: str, urls: list[str]) -> bytes:
    listed = "".join(f"<{kind}><loc>{url}</loc><lastmod>2026-01-01</lastmod></{kind}>" for url in urls)
    xmlns = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="{xmlns}">{listed}</{root}>'.encode()


HOME = (
    "/p/0", "/index.html#here", "/list?b=2&a=1", "/list?a=1&b=2#x", "/list?b=2&amp;a=1", "/about/index.html", "/about/",
    "/calendar/1", "/hop/0", "/long/0", "/loop/a", "/out", "/to-metadata", "/huge", "/bomb", "/slow", "/flaky",
    "/broken", "/missing", "/private/secret", "/private/but-this", "/noindex", "/nofollow", "/dup?session=7", "/latin",
    "/cyrillic", "/lies", "/data", "/plain.txt", "/picture.png", "/item", "/lone space", "http://10.0.0.1/", "http://[::1]/x",
    "http://metadata.google.internal/", "https://example.com/", "mailto:someone@example.com", "javascript:void(0)",
    "ftp://example.com/x", "http://", "//[broken/", "/odd", "/no-charset",
)  # fmt: skip
PAGES = {
    "/": page("Home", "Welcome to the lighthouse", HOME, '<meta name="description" content="All about lamps">'),
    "/list?a=1&b=2": page("A list", "In one order"),
    "/about/": page("About", "About the keeper"),
    "/redirected": page("At last", "After four hops"),
    "/private/but-this": page("Allowed", "Open to everybody"),
    "/private/secret": page("Secret", "Nobody may read this"),
    "/noindex": page("Hidden", "Unkept words", ("/p/1",), '<meta name="robots" content="noindex">'),
    "/nofollow": page("No further", "Stay here", ("/only-from-there",), rel=' rel="nofollow"'),
    "/only-from-there": page("Unseen", "unseen"),
    "/dup?session=7": page("Twice", "The same thing", head='<link rel="canonical" href="/dup">'),
    "/dup": page("Twice", "The same thing", head='<link rel="canonical" href="/dup">'),
    "/flaky": page("Flaky", "At the second try"),
    "/lone%20space": page("A space", "in its name"),
    "/odd": page("Odd", "A bell \x07 &#2; <?rung x?>rings", ("/from-odd",), '<base href="http://[nowhere">'),
    "/from-odd": page("Further", "Found all the same"),
    "/item": page("An item", '<span class="price">12.50</span> <b class="tag">red</b><b class="tag">blue</b>'),
}
