"""Addresses: public, private, and never called; URLs of requests.

A request that a user asked for (webhook, fetch, database of a source) must not reach the network of the worker: its
own host, its neighbours, the metadata service of a cloud. The tables below are ours: `ipaddress.is_global` gives
different answers on different versions of Python.

An IPv6 address can carry an IPv4 address, in several ways. The packet may arrive at the inner address, so the inner
address is checked too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import quote, urldefrag, urljoin, urlsplit, urlunsplit

from ostinato.core.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _table(text: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, text.split()))


# Link-local, multicast, unspecified and broadcast addresses, and the metadata services that are none of these: Oracle,
# Azure, Alibaba, AWS, Google.
NEVER: Final = _table(
    """
    169.254.0.0/16 fe80::/10 224.0.0.0/4 ff00::/8 0.0.0.0/32 ::/128 255.255.255.255/32
    192.0.0.192/32 168.63.129.16/32 100.100.100.200/32 fd00:ec2::/32 fd20:ce::254/128
    """
)
# The special-purpose registries of IANA, IPv4. 192.88.99.0/24 was the relay of 6to4.
NOT_PUBLIC_4: Final = _table(
    """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    """
)
UNICAST: Final = IPv6Network("2000::/3")  # only these are routed between networks
# Protocol assignments with Teredo, documentation, 6to4 (deprecated by RFC 7526).
NOT_PUBLIC_6: Final = _table("2001::/23 2001:db8::/32 2002::/16 3fff::/20")

MAPPED: Final = IPv6Network("::ffff:0:0/96")
COMPATIBLE: Final = IPv6Network("::/96")
NAT64: Final = IPv6Network("64:ff9b::/96")
LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
ISATAP: Final = (0x00005EFE, 0x02005EFE)  # the third quarter of an address, before an IPv4 one
LONGEST_URL: Final = 2048
NEVER_CALLED: Final = "to a metadata service, a link-local address or a group: Ostinato never calls these."
NOT_ALLOWED: Final = "into a private network. OSTINATO_ALLOW_PRIVATE_ADDRESSES can allow it."


@dataclass(frozen=True, slots=True)
class Egress:
    """Addresses that a worker may call: all public ones, and the private networks named here."""

    private: tuple[str, ...] = ()

    @classmethod
    def of(cls, networks: Iterable[str]) -> "Egress":
        """Read networks such as 10.0.0.0/8; Invalid names the first that is none."""
        return cls(tuple(dict.fromkeys(str(_read_network(each)) for each in networks)))

    @property
    def everywhere(self) -> bool:
        """True if every private network is allowed, and so are Unix sockets."""
        return set(EVERYWHERE.private) <= set(self.private)

    def allows(self, address: str) -> bool:
        """Return True if a connection to an address may be opened."""
        return self.refusal(address) is None

    def refusal(self, address: str) -> str | None:
        """Say why an address is not called, as the end of a sentence; None: it may be called."""
        outer = ip_address(address.partition("%")[0])
        held = _carried(outer)
        if any(_lies_in(each, NEVER) for each in (outer, *held)):
            return NEVER_CALLED
        if self._names(outer) or all(is_public(each) or self._names(each) for each in _reachable(outer, held)):
            return None
        return NOT_ALLOWED

    def _names(self, address: Address) -> bool:
        return _lies_in(address, map(_network, self.private))

    def __str__(self) -> str:
        return "on" if self.everywhere else ",".join(self.private) or "off"


PUBLIC_ONLY: Final = Egress()
EVERYWHERE: Final = Egress(("0.0.0.0/0", "::/0"))


def is_public(address: Address) -> bool:
    """Return True if an address belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not _lies_in(address, NOT_PUBLIC_4)
    return address in UNICAST and not _lies_in(address, NOT_PUBLIC_6)


def check_url(url: str, what: str, egress: Egress = EVERYWHERE, longest: int = LONGEST_URL) -> str:
    """Refuse a URL that may not be called, as far as can be told before its name is resolved."""
    if len(url) > longest:
        raise Invalid(f"{what} is too long: at most {longest} characters.")
    if not re.fullmatch(r"[!-~]+", url):
        raise Invalid(f"{what} has characters that cannot stand in a URL; write them as %20 and so on.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{what} cannot be read as a URL.") from None
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host) or port == 0:
        raise Invalid(f"{what} must be an http or https URL with a host.")
    if "@" in parts.netloc:
        raise Invalid(f"{what} must not hold a name or a password.")
    check_host(host, what, egress)
    return url


def check_host(host: str, what: str, egress: Egress) -> None:
    """Refuse a host that is written as an address and may not be called. A name is resolved when it is called."""
    if host.lower().rstrip(".") == "localhost":
        host = "127.0.0.1"
    try:
        why = egress.refusal(host)
    except ValueError:
        return
    if why is not None:
        raise Invalid(f"{what} must not lead {why}")


@lru_cache
def _network(text: str) -> Network:
    return ip_network(text)


def _read_network(text: str) -> Network:
    try:
        return ip_network(text.strip())
    except ValueError:
        raise Invalid(f"{text.strip()[:60]!r} is not a network: write it like 10.0.0.0/8 or fd00::/8.") from None


def _lies_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _reachable(outer: Address, carried: list[Address]) -> list[Address]:
    """List the addresses that a connection may reach; a mapped or NAT64 address reaches only its IPv4 address."""
    return carried if _lies_in(outer, (MAPPED, NAT64)) else [outer, *carried]


def _carried(address: Address) -> list[Address]:
    """List the IPv4 addresses that an IPv6 address carries."""
    if isinstance(address, IPv4Address):
        return []
    found: list[Address | None] = [address.sixtofour, *(address.teredo or ())]
    number = int(address)
    last_quarter = _lies_in(address, (MAPPED, NAT64)) or (address in COMPATIBLE and number > 1)
    if last_quarter or number >> 32 & 0xFFFFFFFF in ISATAP:
        found.append(IPv4Address(number & 0xFFFFFFFF))
    if address in LOCAL_NAT64:
        found += _by_prefix(number)
    return [each for each in found if each is not None]


def _by_prefix(number: int) -> list[IPv4Address]:
    """Read the IPv4 address behind a local NAT64 prefix of 48, 56, 64 and 96 bits; bits 64 to 71 are left out."""
    joined = number >> 64 << 56 | number & (1 << 56) - 1  # 120 bits
    ends = [joined >> shift & 0xFFFFFFFF for shift in (40, 32, 24)]
    return [IPv4Address(each) for each in (*ends, number & 0xFFFFFFFF) if each]


# -- URLs of requests: added parameters, and the targets of redirects.
#
# Secrets for one origin (scheme, host and port) are not sent to another: a redirect to another origin gets only headers
# that are never secret, and no secret parameter. A change from http to https of the same host keeps the origin.

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
