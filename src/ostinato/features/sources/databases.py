"""Databases that a source names itself: opened only where the settings allow it.

The addresses of a server are resolved and checked for each connection, and passed on as `hostaddr`, so that libpq
resolves nothing itself. A file must be in one folder, and must not be the scheduler's own.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from ostinato.config import Grants, Settings
from ostinato.core.addresses import PUBLIC_ONLY, Egress
from ostinato.core.auth import REFERENCE
from ostinato.core.errors import Invalid, StoreUnavailable
from ostinato.features.sources.rules.databases import FileDatabase, ServerDatabase, is_socket, read_database
from ostinato.store.database import Database, open_database
from ostinato.store.dialect import DatabaseKind

CONNECTIONS: Final = 5
MOST_ADDRESSES: Final = 8  # of all hosts together
# Suffixes of the scheduler's own file and of the files beside it.
BESIDE: Final = ("", "-wal", "-shm", "-journal", "-notify", ".lock")


@dataclass(frozen=True, slots=True)
class Reach:
    """Databases that sources may use besides the scheduler's own: servers by address, files by folder."""

    egress: Egress = PUBLIC_ONLY
    folder: str = ""  # empty: the folder of the scheduler's own file, else the working folder
    grants: Grants = Grants()

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.allow_private_addresses, settings.data_folder, Grants.of(settings.permits))

    def url(self, database: str) -> str:
        """Return the URL that a source names, or that its reference leads to."""
        return self.grants.reveal(database) if REFERENCE.fullmatch(database) else database

    def open(self, url: str, own: Database) -> Database:
        """Open a database of a source; raise Invalid where it is not allowed."""
        match read_database(url):
            case FileDatabase(path):
                return open_database(f"sqlite:///{self._file(path, own)}")
            case ServerDatabase() as server:
                server.check(self.egress)
                return open_database(
                    server.url,
                    schema=own.dialect.schema,  # so that our own tables are recognised there too
                    max_connections=CONNECTIONS,
                    resolve=partial(resolved, server, self.egress),
                )

    def _file(self, path: str, own: Database) -> str:
        ours = os.path.realpath(own.name) if own.dialect.kind is DatabaseKind.SQLITE else ""
        folder = os.path.realpath(self.folder or os.path.dirname(ours) or os.getcwd())
        file = os.path.realpath(os.path.join(folder, path))
        if not Path(file).is_relative_to(folder):
            raise Invalid(
                "database: the file must lie in the data folder of the scheduler. Set OSTINATO_DATA_FOLDER to another"
                " folder, or move the file."
            )
        if ours and any(_is_of(file, ours + end) for end in BESIDE):
            raise Invalid("database: this file belongs to the scheduler; leave `database` out to use it.")
        if not os.path.isdir(os.path.dirname(file)):
            raise Invalid("database: the folder of the file does not exist: make it first.")
        return file


def resolved(server: ServerDatabase, egress: Egress) -> Mapping[str, str]:
    """Resolve and check the hosts of a server; return the parameters that replace their names in libpq."""
    found = [each for host, port in server.hosts for each in _addresses(host, port, egress)][:MOST_ADDRESSES]
    hosts, addresses, ports = zip(*found, strict=True)
    parameters = {"host": ",".join(hosts), "port": ",".join(ports)}
    return {**parameters, "hostaddr": ",".join(addresses)} if any(addresses) else parameters


def _addresses(host: str, port: str, egress: Egress) -> Iterator[tuple[str, str, str]]:
    """List host, address and port for each address of a host; a Unix socket has no address."""
    if is_socket(host):
        yield host, "", port
        return
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StoreUnavailable(f"The host {host} of the database is not known.") from None
    for address in dict.fromkeys(str(each[4][0]) for each in found):
        if (why := egress.refusal(address)) is not None:
            raise Invalid(f"database: {host} leads {why}")
        yield host, address, port


def _is_of(file: str, ours: str) -> bool:
    """Return True if a path is our file or folder, lies in that folder, or is our file by a hard link."""
    if Path(file).is_relative_to(ours):
        return True
    return os.path.exists(file) and os.path.exists(ours) and os.path.samefile(file, ours)
