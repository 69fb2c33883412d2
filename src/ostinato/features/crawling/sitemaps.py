"""The URLs in a sitemap: XML or plain text, compressed or not, with pages or further sitemaps."""

from collections.abc import Iterable, Iterator
from typing import Final

from lxml import etree  # type: ignore[import-untyped]
from scrapy.utils.sitemap import Sitemap

from ostinato.core.errors import TooMuch, Unreachable
from ostinato.features.crawling.urls import canonical
from ostinato.outgoing.decoding import unpacker

MOST_BYTES: Final = 50 * 1024 * 1024  # the limit of the protocol
GZIP: Final = b"\x1f\x8b"


def read(body: bytes, url: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of kind (page, sitemap) and URL."""
    text = _unpacked(body) if body.startswith(GZIP) else body
    if not text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = text.decode("utf-8", "replace").splitlines()
        named: Iterable[tuple[str, str]] = [("page", line) for line in lines]
    else:
        named = _named(text)
    for kind, found in named:
        page = canonical(found, url)
        if page is not None:
            yield kind, page


def _named(text: bytes) -> Iterator[tuple[str, str]]:
    try:
        sitemap = Sitemap(text)
        kind = "sitemap" if sitemap.type == "sitemapindex" else "page"
        for entry in sitemap:
            yield kind, entry["loc"]
    except (etree.XMLSyntaxError, StopIteration, KeyError, ValueError):
        return  # the URLs before the error are valid


def _unpacked(body: bytes) -> bytes:
    unpack, parts, size = unpacker("gzip"), list[bytes](), 0
    try:
        for part in unpack(body):
            size += len(part)
            if size > MOST_BYTES:
                raise TooMuch("It decompresses to more than 50 MB.")
            parts.append(part)
    except Unreachable as error:
        if isinstance(error, TooMuch):
            raise
    return b"".join(parts)
