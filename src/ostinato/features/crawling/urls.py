"""URLs that mean the same page are the same text here.

Fragments, the order of a query, default ports, `index.html`, capital letters in the host, dots in the path and needless
escapes make no other page. Parameters that only count visitors (`utm_…` and the like) are left out too.
"""

import re
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit
from uuid import UUID

LONGEST_URL: Final = 2048
PORTS: Final = {"http": 80, "https": 443}
INDEX: Final = re.compile(r"(?<=/)(index\.(html?|php)|default\.aspx?)$", re.IGNORECASE)
COUNTING: Final = re.compile(r"(utm_[a-z_]+|gclid|fbclid|msclkid|mc_[ce]id)(=|$)", re.IGNORECASE)
ESCAPE: Final = re.compile(r"%([0-9a-fA-F]{2})")
UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
IN_PATH: Final = "/%:@!$&'()*+,;=-._~"
IN_QUERY: Final = IN_PATH + "?[]|"


class UrlVisit(NamedTuple):
    """A URL to visit, with the knowledge of earlier crawls; None: nothing is known."""

    url: str
    kind: str  # page, sitemap
    depth: int
    hops: int
    hash: str | None
    rules: str | None
    etag: str | None
    last_modified: str | None
    links: str | None


def canonical(url: str, base: str = "") -> str | None:
    """Return the one text for a page; None for a URL that is no web page, or is too long."""
    try:
        parts = urlsplit(urljoin(base, url.strip()) if base else url.strip())
        host, port = _host(parts), parts.port
    except (ValueError, UnicodeError):
        return None
    scheme = parts.scheme.lower()
    if scheme not in PORTS or not host or "@" in parts.netloc or port == 0:
        return None
    at = "" if port in (None, PORTS[scheme]) else f":{port}"
    query = _query(parts.query)
    made = f"{scheme}://{host}{at}{_path(parts.path)}{'?' if query else ''}{query}"
    return made if len(made) <= LONGEST_URL and made.isascii() else None


def host_of(url: str) -> str:
    """Return the host of a canonical URL, with its port if that is not the default."""
    return url.split("/", 3)[2]


def path_of(url: str) -> str:
    """Return the path with its query."""
    return "/" + url.split("/", 3)[3]


def page_id(job_id: UUID, url: str) -> int:
    """Return the number of a page: 63 bits of a hash. Two of ten million pages share one with a chance of 10⁻⁵."""
    return int.from_bytes(sha256(job_id.bytes + url.encode()).digest()[:8], "big") >> 1


def _host(parts: SplitResult) -> str:
    name = (parts.hostname or "").rstrip(".").lower()
    if ":" in name:
        return f"[{name}]"
    return name if name.isascii() else name.encode("idna").decode()


def _path(path: str) -> str:
    return INDEX.sub("", _without_dots(_escaped(path, IN_PATH)) or "/")


def _without_dots(path: str) -> str:
    """Resolve dots: `/a/./b/../c` is `/a/c`."""
    kept = list[str]()
    parts = path.split("/")
    for part in parts[1:]:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _query(query: str) -> str:
    parts = [part for part in query.split("&") if part and not COUNTING.match(part)]
    return "&".join(sorted(_escaped(part, IN_QUERY) for part in parts))


def _escaped(text: str, safe: str) -> str:
    """Escape only the characters that need it, with capital letters."""
    lone = re.sub(r"%(?![0-9a-fA-F]{2})", "%25", text)
    return ESCAPE.sub(_escape, quote(lone, safe=safe))


def _escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in UNRESERVED else match[0].upper()
