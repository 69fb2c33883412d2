"""Databases of sources, and the tables in them. A database that a source names is opened only where settings allow it.

The addresses of a server are resolved and checked for each connection, and passed on as `hostaddr`, so that libpq
resolves nothing itself. A file must be in one folder, and must not be the scheduler's own.

A database that does not answer blocks a call for as long as its driver waits. So requests make few calls at once, each
on a thread of its own with a deadline (`ForeignDatabases`): such calls cannot block the threads that answer others.
"""

import logging
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from ostinato.config import Grants, Settings
from ostinato.core.addresses import PUBLIC_ONLY, Egress
from ostinato.core.auth import REFERENCE
from ostinato.core.errors import Invalid, StoreError, StoreUnavailable
from ostinato.features.sources.rules.databases import FileDatabase, ServerDatabase, is_socket, read_database
from ostinato.features.sources.rules.tables import Target, check_table_name
from ostinato.features.sources.table_statements import ExistingColumn, TargetTable, quoted
from ostinato.store.database import Database, Tx, open_database
from ostinato.store.dialect import DatabaseKind, Statement
from ostinato.store.store import Store

QUERIES: Final = Path(__file__).with_name("rows.sql")
OTHERS: Final = 20  # other databases that stay open
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


class Places:
    """The tables of targets: in the scheduler's own database, or in another one that is opened on first use."""

    def __init__(self, store: Store) -> None:
        self._database, self._reach = store.database, Reach.of(store.settings)
        self._others: OrderedDict[str, Database] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def reading(self, target: Target) -> Iterator[tuple[Tx, TargetTable]]:
        with self.of(target).read() as tx:
            yield tx, self.place(tx, target)

    @contextmanager
    def writing(self, target: Target) -> Iterator[tuple[Tx, TargetTable]]:
        with self.of(target).write() as tx:
            yield tx, self.place(tx, target)

    def place(self, tx: Tx, target: Target) -> TargetTable:
        check_table_name(target.table)
        schema, _, name = target.table.rpartition(".")
        if schema and not self.is_postgres(target):
            raise Invalid(f"table: {target.table!r} names a schema, and SQLite has none.")
        if schema == self.of(target).dialect.schema:
            raise Invalid(f"table: {target.table!r} lies in the schema of the scheduler itself.")
        if not schema and self.is_postgres(target):
            (usual,) = tx.row("usual_schema") or (None,)
            ours = usual == self.of(target).dialect.schema
            schema = "public" if usual is None or ours else str(usual)
        found = tx.rows("columns_of", schema=schema, name=name)
        columns = tuple(ExistingColumn(a, b, c, bool(d)) for a, b, c, d in found)
        unique = dict[str, set[str]]()
        for index, column in tx.rows("unique_of", schema=schema, name=name):
            unique.setdefault(index, set()).add(column)
        named = f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)
        return TargetTable(named, columns, tuple(map(frozenset, unique.values())))

    def statement(self, target: Target, sql: str) -> Statement:
        return self.of(target).dialect.statement(sql, "records")

    def is_postgres(self, target: Target) -> bool:
        return self.of(target).dialect.kind is DatabaseKind.POSTGRES

    def is_missing(self, target: Target) -> bool:
        """Return True if the file of another database does not exist yet: only a run creates it."""
        return bool(target.database) and not self.is_postgres(target) and not os.path.exists(self.of(target).name)

    def check_reference(self, target: Target) -> None:
        """Raise Invalid if the database of a target is named by a reference that this host cannot read."""
        if target.database:
            self._reach.url(target.database)

    def of(self, target: Target) -> Database:
        """Return the database of a target: ours, or another one, which is opened on first use."""
        if not target.database:
            return self._database
        url = self._reach.url(target.database)
        with self._lock:
            database = self._others.get(url)
            if database is None:
                database = self._reach.open(url, self._database)
                database.load(QUERIES)
                self._others[url] = database
                if len(self._others) > OTHERS:
                    self._others.popitem(last=False)[1].close()
            return database

    def close(self) -> None:
        with self._lock:
            others, self._others = self._others, OrderedDict()
        for database in others.values():
            database.close()


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


CALLS_AT_ONCE: Final = 3
ANSWER_WITHIN: Final = 5.0  # seconds

log = logging.getLogger("ostinato.service")

T = TypeVar("T")


class ForeignDatabases:
    """Databases of sources, as requests use them. The scheduler's own database has none of these limits."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._free = threading.BoundedSemaphore(CALLS_AT_ONCE)

    def ask(self, target: Target, call: Callable[[], T]) -> T:
        """Make a call with a deadline; errors are StoreUnavailable or Invalid in plain words."""
        if not target.database:
            return call()
        self._places.check_reference(target)
        if not self._free.acquire(blocking=False):
            raise StoreUnavailable(f"{CALLS_AT_ONCE} calls to databases of sources are running; try again.")
        with with_plain_errors(target):
            return self._in_time(target, call)

    def _in_time(self, target: Target, call: Callable[[], T]) -> T:
        answer = Future[T]()
        try:
            name = f"ostinato-source-{target.source}"
            threading.Thread(target=self._run, args=(call, answer), name=name, daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise StoreUnavailable("No thread is free for a call to the database of a source; try again.") from None
        try:
            return answer.result(ANSWER_WITHIN)
        except TimeoutError:
            raise StoreUnavailable(f"It has not answered within {ANSWER_WITHIN:g} s.") from None

    def _run(self, call: Callable[[], T], answer: "Future[T]") -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  raised again in the thread that waits
            self._free.release()
            answer.set_exception(error)
        else:
            self._free.release()
            answer.set_result(found)


@contextmanager
def with_plain_errors(target: Target) -> Iterator[None]:
    """Replace an error of a source's database by a plain sentence; the log gets the driver's message.

    That message may hold parts of a URL that the source names by reference.
    """
    try:
        yield
    except (StoreError, Invalid) as error:
        if not target.database or (isinstance(error, Invalid) and not REFERENCE.fullmatch(target.database)):
            raise
        log.warning("The database of the source %s failed: %s", target.source, error)
        if isinstance(error, StoreUnavailable):
            raise StoreUnavailable(
                f"The database of the source {target.source!r} does not answer; the log of the server says why."
            ) from None
        raise Invalid(
            f"database: the database of the source {target.source!r} cannot be used; the log of the server says why."
        ) from None
