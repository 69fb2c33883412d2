"""Which addresses of the network are everybody's, and which are somebody's own.

What Ostinato calls because a user said so (webhooks, fetches) must not reach into the network that it stands in:
its own host, its neighbours, the metadata of a cloud. An IPv6 address may hold an IPv4 one, in one of several ways;
whoever would connect to the outer may end at the inner, so that is looked at too.
"""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from ostinato.core.errors import Invalid

Address = IPv4Address | IPv6Address

UNICAST: Final = IPv6Network("2000::/3")  # all that is routed between networks
DOCUMENTATION: Final = IPv6Network("3fff::/20")
NAT64: Final = IPv6Network("64:ff9b::/96")
COMPATIBLE: Final = IPv6Network("::/96")
ISATAP: Final = (0x00005EFE, 0x02005EFE)  # the third quarter of an address, before an IPv4 one
LONGEST_URL: Final = 2048


def is_public(text: str) -> bool:
    """Whether an address is everybody's, in all it may lead to."""
    address = _parsed(text)
    if isinstance(address, IPv4Address):
        return _is_public(address)
    inner = _inner(address)
    if address.ipv4_mapped is None and address not in NAT64:  # these two are nothing but their IPv4 address
        inner.append(address)
    return all(_is_public(each) for each in inner)


def is_callable(text: str, allow_private: bool) -> bool:
    """Whether we may connect to an address. The metadata of a cloud is never called, nor are groups."""
    if not allow_private:
        return is_public(text)
    address = _parsed(text)
    ways = [address, *(_inner(address) if isinstance(address, IPv6Address) else ())]
    return not any(each.is_link_local or each.is_multicast or each.is_unspecified for each in ways)


def check_url(url: str, what: str, allow_private: bool = True, longest: int = LONGEST_URL) -> str:
    """A URL that may be called, as far as can be told before its name is looked up."""
    if len(url) > longest:
        raise Invalid(f"{what} is too long: at most {longest} characters.")
    if not re.fullmatch(r"[!-~]+", url):
        raise Invalid(f"{what} has characters that cannot stand in a URL; write them as %20 and so on.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{what} cannot be read as a URL.") from None
    if (
        parts.scheme not in ("http", "https")
        or not re.fullmatch(r"[a-z0-9._-]+|[0-9a-f:.]+", host)
        or port == 0
    ):
        raise Invalid(f"{what} must be an http or https URL with a host.")
    if "@" in parts.netloc:
        raise Invalid(f"{what} must not hold a name or a password.")
    if _is_forbidden_literal(host, allow_private):
        raise Invalid(f"{what} must not lead {where_not(allow_private)}")
    return url


def where_not(allow_private: bool) -> str:
    """Where nobody is called, as the end of a sentence."""
    if allow_private:
        return "to a link-local address, where clouds keep their metadata, or to a group: these are never called."
    return "into a private network. OSTINATO_ALLOW_PRIVATE_ADDRESSES would let it."


def _is_forbidden_literal(host: str, allow_private: bool) -> bool:
    if not allow_private and host.rstrip(".") == "localhost":
        return True
    try:
        return not is_callable(host, allow_private)
    except ValueError:
        return False  # a name: looked at when it is called


def _parsed(text: str) -> Address:
    return ip_address(text.partition("%")[0])


def _inner(address: IPv6Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 one holds."""
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if (
        address in NAT64
        or (address in COMPATIBLE and int(address) > 1)
        or int(address) >> 32 & 0xFFFFFFFF in ISATAP
    ):
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [inner for inner in found if inner is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        return address in UNICAST and address.is_global and address not in DOCUMENTATION
    return address.is_global and not (address.is_multicast or address.is_reserved)
