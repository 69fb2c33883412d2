"""Extraction from a page (title, text, links, columns of the job) and from a sitemap."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urljoin

from lxml import etree  # type: ignore[import-untyped]
from parsel import Selector
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.utils.sitemap import Sitemap

from ostinato.core.errors import TooMuch, Unreachable
from ostinato.features.crawling.args import Rule
from ostinato.features.crawling.urls import canonical, path_of
from ostinato.outgoing.reply import unpacker

VERSION: Final = "1"  # of this module's rules: a new version reads all pages again
MOST_TEXT: Final = 200_000  # characters
MOST_LINKS: Final = 2_000
SHORT: Final = 1_000
LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
NOT_TEXT: Final = ("script", "style", "noscript", "template", "svg", "head")
BLOCKS: Final = frozenset(
    "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol option p pre section select table td th tr ul".split()
)
IGNORED: Final = tuple(f".{each}" for each in IGNORED_EXTENSIONS)
UNSTORABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Read:
    """The extracted content of a page."""

    title: str = ""
    description: str = ""
    text: str = ""
    language: str = ""
    links: list[str] = field(default_factory=list)
    follow: list[str] = field(default_factory=list)  # the links that a crawl may follow
    columns: dict[str, Any] = field(default_factory=dict)
    canonical: str | None = None  # the canonical URL that the page names
    indexed: bool = True  # the page allows indexing

    @property
    def hash(self) -> str:
        kept = json.dumps([self.title, self.description, self.text, self.columns], sort_keys=True)
        return sha256(kept.encode()).hexdigest()


def rules_hash(rules: Mapping[str, Rule]) -> str:
    """Return a hash of the rules for reading pages."""
    listed = sorted((name, rule.css, rule.xpath, rule.all) for name, rule in rules.items())
    return sha256(json.dumps([VERSION, listed]).encode()).hexdigest()[:16]


class Unreadable(Exception):
    """The page cannot be read."""


def read(response: Response, rules: Mapping[str, Rule]) -> Read:
    """Read a page; raise Unreadable if that is impossible (an unknown charset, for example)."""
    try:
        return _read(response, rules)
    except (ValueError, LookupError, etree.LxmlError) as error:
        raise Unreadable(f"It cannot be read: {str(error)[:200]}") from None


def _read(response: Response, rules: Mapping[str, Rule]) -> Read:
    said = " ".join(v.decode("latin-1") for v in response.headers.getlist("X-Robots-Tag")).lower()
    if isinstance(response, HtmlResponse):
        return _html(response, rules, said)
    if isinstance(response, TextResponse):
        return Read(text=_clean(response.text, MOST_TEXT), indexed="noindex" not in said and "none" not in said)
    return Read()


def _html(response: HtmlResponse, rules: Mapping[str, Rule], said: str) -> Read:
    page = Selector(text=response.text, type="html")
    said += " " + " ".join(_all(page, '//meta[translate(@name,"ROBTS","robts")="robots"]/@content')).lower()
    base = _base(response.url, _first(page, "//base/@href"))
    links, follow = _links(page, base)
    language = _first(page, "/html/@lang") or (response.headers.get("Content-Language") or b"").decode("latin-1")
    title = _first(page, "//head//title//text()") or _first(page, '//meta[@property="og:title"]/@content')
    meta = '//meta[translate(@name,"DESCRIPTON","descripton")="description"]/@content'
    about = _first(page, meta) or _first(page, '//meta[@property="og:description"]/@content')
    columns = {name: _column(page, rule) for name, rule in rules.items()}
    own = _first(page, '//link[@rel="canonical"]/@href')
    nowhere = "nofollow" in said or "none" in said
    return Read(
        title=_clean(title or _first(page, "string(//h1)"), SHORT),
        description=_clean(about, SHORT),
        text=_clean(_text(page), MOST_TEXT),
        language=found[0].lower() if (found := LANGUAGE.match(language.strip())) else "",
        links=links,
        follow=[] if nowhere else follow,
        columns=columns,
        canonical=canonical(own, base) if own else None,
        indexed="noindex" not in said and "none" not in said,
    )


def _base(url: str, named: str) -> str:
    """Return the base of relative links; an unreadable one is ignored."""
    try:
        return urljoin(url, named)
    except ValueError:
        return url


def _links(page: Selector, base: str) -> tuple[list[str], list[str]]:
    links, follow = dict[str, None](), dict[str, None]()
    for link in page.xpath("//a[@href] | //area[@href] | //iframe[@src] | //frame[@src]"):
        url = canonical(link.attrib.get("href") or link.attrib.get("src") or "", base)
        if url is None or len(links) >= MOST_LINKS:
            continue
        links[url] = None
        if "nofollow" not in link.attrib.get("rel", "").lower() and is_page(url):
            follow[url] = None
    return list(links), list(follow)


def is_page(url: str) -> bool:
    """Return True if a URL may be a page, by its name."""
    return not path_of(url).partition("?")[0].lower().endswith(IGNORED)


def _text(page: Selector) -> str:
    """Return the text of a page, with a line end before and after each block."""
    root, parts = page.root, list[str]()
    etree.strip_elements(root, *NOT_TEXT, etree.Comment, etree.ProcessingInstruction, with_tail=False)
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if element.tag in BLOCKS:
            parts.append("\n")
        parts.append((element.text if event == "start" else element.tail) or "")
    return "".join(parts)


def _column(page: Selector, rule: Rule) -> Any:
    found = page.css(rule.css) if rule.css else page.xpath(rule.xpath)
    values = [_clean(_plain(each), MOST_TEXT) for each in found]
    return values if rule.all else (values[0] if values else None)


def _plain(found: Selector) -> str:
    """Return the text of an element, or the attribute or text that a selector names."""
    return str(found.xpath("string()").get() or "") if hasattr(found.root, "tag") else str(found.get() or "")


def _all(page: Selector, xpath: str) -> list[str]:
    return [str(each) for each in page.xpath(xpath).getall()]


def _first(page: Selector, xpath: str) -> str:
    return str(page.xpath(xpath).get() or "")


def _clean(text: str, most: int) -> str:
    """Return the text with single spaces, without empty lines and without characters that databases reject."""
    lines = (" ".join(line.split()) for line in UNSTORABLE.sub(" ", text).split("\n"))
    return "\n".join(line for line in lines if line)[:most]


# -- The URLs in a sitemap: XML or plain text, compressed or not, with pages or further sitemaps

MOST_BYTES: Final = 50 * 1024 * 1024  # the limit of the protocol
GZIP: Final = b"\x1f\x8b"


def read_sitemap(body: bytes, url: str) -> Iterator[tuple[str, str]]:
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
