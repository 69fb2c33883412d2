"""URLs of requests: added parameters, and the targets of redirects.

Secrets for one origin (scheme, host and port) are not sent to another: a redirect to another origin gets only headers
that are never secret, and no secret parameter. A change from http to https of the same host keeps the origin.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
KEEPING: Final = frozenset({307, 308})  # redirects that repeat method and body
HARMLESS: Final = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
OF_A_BODY: Final = frozenset({"content-type", "content-length", "content-encoding"})
PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hop:
    """The next request of a chain."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    trusted: bool  # still the first origin: secrets may be sent


def with_params(url: str, params: Iterable[tuple[str, str]]) -> str:
    """Add parameters to a URL, after its own, in this order, percent-encoded."""
    more = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in params)
    if not more:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=f"{parts.query}&{more}" if parts.query else more))


def host_of(url: str) -> str:
    """Return the name of its host as it is compared: lower case, no dot at the end."""
    return (urlsplit(url).hostname or "").rstrip(".")


def follow(hop: Hop, status: int, location: str | None) -> Hop | None:
    """Return the next hop of a redirect; None without one."""
    if status not in REDIRECTS or not location:
        return None
    url = urldefrag(urljoin(hop.url, quote(location.strip(), safe="!#$%&'()*+,/:;=?@[]~")))[0]
    headers, body, method = dict(hop.headers), hop.body, hop.method
    if status not in KEEPING and (method == "POST" or status == 303) and method != "HEAD":
        method, body = "GET", b""
        headers = {name: value for name, value in headers.items() if name.lower() not in OF_A_BODY}
    trusted = hop.trusted and _is_same(hop.url, url)
    if not trusted:
        about_the_body = OF_A_BODY if body else frozenset[str]()
        headers = {name: value for name, value in headers.items() if name.lower() in HARMLESS | about_the_body}
    return Hop(method, url, headers, body, trusted)


def _is_same(first: str, second: str) -> bool:
    one, other = urlsplit(first), urlsplit(second)
    if one.hostname != other.hostname:
        return False
    ports = one.port or PORTS.get(one.scheme), other.port or PORTS.get(other.scheme)
    if one.scheme == other.scheme:
        return ports[0] == ports[1]
    return (one.scheme, other.scheme, ports) == ("http", "https", (80, 443))
