"""Downloads of Scrapy's requests by the HTTP client `outgoing`.

So addresses are checked, sizes are limited before and after decompression, a proxy from the environment is ignored, and
each request passes the budgets of providers. A redirect is an answer: the crawl checks its target like any other URL.
"""

from typing import Any, Final

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from ostinato.outgoing import Bounds, Outgoing

READ: Final = (
    "text/",
    "application/xhtml",
    "application/xml",
    "application/json",
    "application/rss",
    "application/atom",
)
PACKED: Final = ("application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream")


class Downloads(BaseDownloadHandler):
    """Scrapy's download handler, which uses the spider's HTTP client."""

    async def download_request(self, request: Request) -> Response:
        outgoing: Outgoing = self.crawler.spider.outgoing  # type: ignore[union-attr]
        bounds: Bounds = request.meta["bounds"]
        headers = {name.decode(): values[-1].decode("latin-1") for name, values in request.headers.items()}
        await self.crawler.spider.calm(request.url)  # type: ignore[union-attr]
        async with outgoing.request("GET", request.url, headers=headers, bounds=bounds) as reply:
            request.meta["wait"] = reply.asked.wait
            wanted = reply.good and is_read(reply.headers.get("content-type", ""), request.meta["kind"])
            body = await reply.read() if wanted else b""
            request.meta["received"] = reply.received
        known: dict[str, Any] = {k: v for k, v in reply.headers.items() if k != "content-encoding"}
        kind = responsetypes.from_args(Headers(known), request.url, body=body)
        return kind(request.url, status=reply.status, headers=known, body=body, request=request)


def is_read(content_type: str, kind: str) -> bool:
    """Return True if a content type is text."""
    named = content_type.lower().strip()
    return not named or named.startswith(READ) or (kind == "sitemap" and named.startswith(PACKED))
