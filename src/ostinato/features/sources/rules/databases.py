"""Databases of sources: a URL, read into values.

A URL of PostgreSQL can name files, services, proxies and more hosts than it shows. So the driver gets these values, not
the URL, and a parameter outside this list is refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ostinato.core.addresses import Egress, check_host
from ostinato.core.errors import Invalid

ALLOWED: Final = ("host", "port", "dbname", "user", "password", "sslmode", "connect_timeout")
SQLITE: Final = "sqlite:///"
POSTGRES: Final = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<authority>[^/?#]*)"
    r"(?:/(?P<dbname>[^?#]*))?(?:\?(?P<query>[^#]*))?"
)
AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::(?P<port>[0-9]*))?")
HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
SOCKET: Final = ("/", "@")  # the first character of a host that is a Unix socket
PORT: Final = "5432"
SSLMODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
LONGEST_CONNECT: Final = 10  # seconds
FORMS: Final = "sqlite:///file.db or postgresql://user@host:port/database"


@dataclass(frozen=True, slots=True)
class FileDatabase:
    """A SQLite file."""

    path: str


@dataclass(frozen=True, slots=True)
class ServerDatabase:
    """A database of PostgreSQL; a host is a name, an address or a Unix socket."""

    hosts: tuple[tuple[str, str], ...]  # each with its port
    others: Mapping[str, str] = field(repr=False)  # dbname, user, password, sslmode, connect_timeout

    @property
    def url(self) -> str:
        """Build the URL again from these values alone."""
        hosts, ports = zip(*self.hosts, strict=True)
        told = {**self.others, "host": ",".join(hosts), "port": ",".join(ports)}
        return "postgresql://?" + urlencode(told, quote_via=quote)

    def check(self, egress: Egress, what: str = "database") -> None:
        """Refuse hosts that may not be called, as far as can be told before their names are resolved."""
        for host, _ in self.hosts:
            if not is_socket(host):
                check_host(host, what, egress)
            elif not egress.everywhere:
                raise Invalid(f"{what} must name a host: Unix sockets need OSTINATO_ALLOW_PRIVATE_ADDRESSES=on.")


def is_socket(host: str) -> bool:
    """Return True if libpq takes a host, or a missing host, for a Unix socket."""
    return not host or host.startswith(SOCKET)


def read_database(url: str, what: str = "database") -> FileDatabase | ServerDatabase:
    """Read the URL of a database; Invalid if it is none, or asks for more than is allowed."""
    if not url.isprintable():
        raise Invalid(f"{what} has characters that cannot stand in a URL.")
    if url.startswith(SQLITE):
        return _file(url.removeprefix(SQLITE), what)
    found = POSTGRES.fullmatch(url)
    if found is None:
        raise Invalid(f"{what} must be the URL of a database: {FORMS}.")
    given = {name: unquote(text) for name, text in found.groupdict().items() if text and name in ALLOWED}
    asked = {**given, **_query(found["query"] or "", what)}
    if not all(each.isprintable() for each in asked.values()):
        raise Invalid(f"{what} has characters that cannot stand in a URL.")
    _check_options(asked, what)
    hosts, ports = _hosts(found["authority"], what)
    pairs = _pairs(asked.pop("host", hosts).split(","), asked.pop("port", ports).split(","), what)
    return ServerDatabase(tuple(pairs), asked)


def _file(path: str, what: str) -> FileDatabase:
    if not path or ":memory:" in path or "?" in path:
        raise Invalid(f"{what} must be a file, sqlite:///file.db, and no more.")
    return FileDatabase(path)


def _query(query: str, what: str) -> dict[str, str]:
    try:
        asked = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"))
    except ValueError:
        raise Invalid(f"{what} has parameters that cannot be read: write ?name=value&name=value.") from None
    for name in asked:
        if name not in ALLOWED:
            raise Invalid(f"{what} must not have the parameter {name[:40]!r}: only {', '.join(ALLOWED)} are allowed.")
    return asked


def _check_options(asked: Mapping[str, str], what: str) -> None:
    if asked.get("sslmode", "prefer") not in SSLMODES:
        raise Invalid(f"{what}: sslmode must be one of {', '.join(SSLMODES)}.")
    seconds = asked.get("connect_timeout", "10")
    if not re.fullmatch(r"[0-9]{1,2}", seconds) or not 1 <= int(seconds) <= LONGEST_CONNECT:
        raise Invalid(f"{what}: connect_timeout must be from 1 to {LONGEST_CONNECT} seconds.")


def _hosts(authority: str, what: str) -> tuple[str, str]:
    """Split `one:1,two:2` into hosts and ports, each joined by commas as in a query."""
    hosts, ports = [], []
    for each in authority.split(","):
        found = AUTHORITY.fullmatch(each)
        if found is None:
            raise Invalid(f"{what} must be the URL of a database: {FORMS}.")
        hosts.append(unquote(found["host"].strip("[]")))
        ports.append(found["port"] or PORT)
    return ",".join(hosts), ",".join(ports)


def _pairs(hosts: list[str], ports: list[str], what: str) -> Iterator[tuple[str, str]]:
    if len(ports) not in (1, len(hosts)):
        raise Invalid(f"{what} must have one port, or one for each host.")
    for number, host in enumerate(hosts):
        port = ports[number % len(ports)] or PORT
        if not is_socket(host) and not HOST.fullmatch(host):
            raise Invalid(f"{what} must name a host; write the special characters of a password as %40 and so on.")
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise Invalid(f"{what} must have a port from 1 to 65535.")
        yield host, port
