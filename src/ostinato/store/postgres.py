"""PostgreSQL, through psycopg 3. Only this file imports psycopg, and it is imported only when such a database is
opened.

A transaction takes an idle connection or makes one, and fails at once if it gets none. (A pool that retries in the
background would keep its callers waiting.) A connection that was idle while the server restarted is replaced silently:
nothing has happened on it yet.

There are three deadlines, one behind the other: the server's own timeouts, TCP's, and a watchdog that closes the socket
of a connection that was busy too long. Only the watchdog works when the server is frozen and its host is not.

Reads are REPEATABLE READ: lists and counts of one transaction must agree, which is worth two short messages. Writes are
READ COMMITTED; rows are locked explicitly, in id order.
"""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import Any, Final
from weakref import WeakSet

import psycopg
from psycopg import RawCursor, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import ByteaBinaryLoader

from ostinato.core.errors import (
    Invalid,
    InvalidSetting,
    RightsMissing,
    RowRefused,
    StoreError,
    StoreUnavailable,
)
from ostinato.feature import Features
from ostinato.store.arrays import ARRAYS, DUMPERS
from ostinato.store.database import (
    Batch,
    Database,
    Duplicate,
    NotifyListener,
    Row,
    Tx,
    Watchdog,
    driver_connection,
)
from ostinato.store.dialect import Dialect, Statement
from ostinato.store.notify import ServerListener
from ostinato.store.rows import from_micros, to_micros, to_uuid
from ostinato.store.upkeep import Vacuum

OLDEST: Final = 140000
CONNECTING: Final[Mapping[str, str]] = {  # defaults; the URL overrides them
    "application_name": "ostinato",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
LONGEST_CONNECT: Final = 10  # seconds
# Writing statements are written to find their rows by index, whatever the statistics say. Their batches are arrays:
# PostgreSQL would plan each anew and rather hash whole tables (a tenth of the server's time).
BY_INDEX: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
}
# Reading statements have optional filters, so they get a plan for the actual values.
READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + "; ".join(
    f"SET LOCAL {name} TO DEFAULT" for name in BY_INDEX
)
# SQLSTATE classes caused by the values of a row: data exception, integrity violation, program limit exceeded.
OF_A_ROW: Final = frozenset({"22", "23", "54"})
CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
IDENTITY: Final = "SELECT extract(epoch FROM pg_postmaster_start_time())::text, current_database()::text"


Connection = psycopg.Connection[Any]
Cursor = RawCursor[Any]


class Session:
    """A connection and its one cursor; it can also listen for notifications."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cursor = _cursor(connection)
        self.overdue = False

    @property
    def is_connected(self) -> bool:
        """Return True if the connection seems open, without a query: a server that stops says so."""
        line = self.connection.pgconn
        while line.status == ConnStatus.OK and self._has_heard_something():
            with suppress(psycopg.Error):  # a message of a server that stops, or a notice
                line.consume_input()
        return line.status == ConnStatus.OK

    @property
    def usable(self) -> bool:
        return self.connection.info.transaction_status == TransactionStatus.IDLE

    def shut(self) -> None:
        """Close the connection at once, so that a thread that waits for it gets an error."""
        self.overdue = True
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def fileno(self) -> int:
        return self.connection.fileno()

    def _has_heard_something(self) -> bool:
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def drain(self) -> bool:
        try:
            self.connection.pgconn.consume_input()
        except psycopg.Error as error:
            raise StoreUnavailable("The connection that listens for notifications is closed.") from error
        return any([*iter(self.connection.pgconn.notifies, None)])

    def close(self) -> None:
        self.connection.close()

    def roll_back(self) -> None:
        with suppress(psycopg.Error):
            if not self.usable:
                self.cursor.execute("ROLLBACK")


def _cursor(connection: Connection) -> Cursor:
    cursor: Cursor = RawCursor(connection, row_factory=tuple_row)
    for values, dumper in DUMPERS.values():
        cursor.adapters.register_dumper(values, dumper)
    cursor.adapters.register_dumper(int, Int8BinaryDumper)  # one size, for the same reason
    # SQLite returns bytes too, and they are cheaper to compare.
    cursor.adapters.register_loader("uuid", ByteaBinaryLoader)
    return cursor


class _PostgresTx(Tx):
    def __init__(self, database: "PostgresDatabase", cursor: Cursor) -> None:
        super().__init__(database.statements)
        self._database = database
        self._cursor = cursor

    def _fetch(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> list[Row]:
        cursor = self._execute(statement, batch, params)
        return [] if cursor.description is None else cursor.fetchall()

    def _count(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> int:
        return self._execute(statement, batch, params).rowcount

    def copy(self, into: Statement, rows: bytes) -> None:
        try:
            with self._cursor.copy(into.sql) as lines:
                lines.write(rows)
        except psycopg.Error as error:
            self._failed = True
            raise self._database.translated(error) from error

    def _execute(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> Cursor:
        lists = statement.lists
        values = [_value(params[name], lists.get(name)) for name in statement.parameters]
        if batch is not None:
            cells = list(zip(*batch, strict=True)) if batch else [()] * len(statement.columns)
            values += [ARRAYS[statement.columns[place][1]](cells[place]) for place in statement.used]
        try:
            return self._cursor.execute(statement.sql, values, binary=True)
        except psycopg.Error as error:
            self._failed = True
            raise self._database.translated(error) from error


class _AloneTx(_PostgresTx):
    """A transaction of one statement, which commits by itself."""

    _done = False

    def _execute(self, statement: Statement, batch: Batch | None, params: Mapping[str, Any]) -> Cursor:
        if self._done:
            raise StoreError(f"{statement.name} would not be in one transaction with what was done before it.")
        self._done = True
        return super()._execute(statement, batch, params)


def _value(value: Any, list_of: str | None) -> Any:
    if list_of is not None:
        return ARRAYS[list_of](value)
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, bytes):  # an id, as it was returned
        return to_uuid(value)
    if isinstance(value, Enum):  # psycopg would send its name
        return value.value
    return value


class PostgresDatabase(Database):
    elsewhere = True

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        features: Features,
        *,
        deadline: float = 30.0,
        max_connections: int = 10,
        resolve: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        super().__init__(dialect, features)
        asked = _read(url)
        self.name = _display_name(asked)
        limits = {
            "connect_timeout": max(2, min(LONGEST_CONNECT, int(deadline))),
            "tcp_user_timeout": int(deadline * 1000),
        }
        self._conninfo = make_conninfo("", **{**CONNECTING, **limits, **asked})
        self._deadline, self._max_connections, self._resolve = deadline, max_connections, resolve
        self._channel = f"{dialect.schema}_notify"
        self._inherited: list[object] = []
        self._vacuum = Vacuum(self)
        self._begin_with_nothing()

    def _begin_with_nothing(self) -> None:
        self._places = threading.Semaphore(self._max_connections)
        self._idle: list[Session] = []
        self._watchdog = Watchdog()
        self._who: Row = ()
        self._known_same: WeakSet[Connection] = WeakSet()

    @contextmanager
    def write(self, deadline: float | None = None) -> Iterator[Tx]:
        limit = self._deadline if deadline is None else deadline
        begin = "BEGIN" if deadline is None else f"BEGIN; {_timeouts(limit, 'SET LOCAL')}"
        with self._transaction(begin, limit) as tx:
            self.observed(tx)
            yield tx
        tx.committed()

    @contextmanager
    def alone(self) -> Iterator[Tx]:
        with self._session("", self._deadline) as session:
            tx = _AloneTx(self, session.cursor)
            self.observed(tx)
            yield tx
        tx.committed()

    @contextmanager
    def snapshot(self) -> Iterator[Tx]:
        with self._transaction(READ, self._deadline) as tx:
            yield tx

    @contextmanager
    def _transaction(self, begin: str, limit: float) -> Iterator[_PostgresTx]:
        with self._session(begin, limit) as session:
            tx = _PostgresTx(self, session.cursor)
            try:
                yield tx
                tx.refuse_if_failed()
                self._execute(session, f"NOTIFY {self._channel}; COMMIT" if tx.notifies else "COMMIT")
            except BaseException:
                session.roll_back()
                raise

    @contextmanager
    def _session(self, first: str, limit: float) -> Iterator[Session]:
        """Return a connection on which `first` was executed, if given; it must be safe to repeat."""
        if not self._places.acquire(timeout=min(limit, threading.TIMEOUT_MAX)):
            raise StoreUnavailable(f"All {self._max_connections} connections to {self.name} are in use.")
        session = None
        try:
            session = self._answering(first, limit)
            yield session
        finally:
            if session is not None:
                self._put_back(session)
            self._places.release()

    def _answering(self, first: str, limit: float) -> Session:
        while self._idle:
            with suppress(IndexError):  # another thread took it
                session = self._idle.pop()
                try:
                    return self._said(session, first, limit)
                except StoreUnavailable:
                    if session.overdue:
                        raise
        return self._said(self._connect(), first, limit)

    def _said(self, session: Session, first: str, limit: float) -> Session:
        self._watchdog.watch(session, limit)
        try:
            if first:
                self._execute(session, first)
            elif not session.is_connected:
                raise StoreUnavailable(f"{self.name} has closed a connection.")
        except BaseException:
            self._put_back(session)
            raise
        return session

    def _put_back(self, session: Session) -> None:
        self._watchdog.leave(session)
        if session.usable and not session.overdue:
            self._idle.append(session)
        else:
            session.close()

    def _execute(self, session: Session, sql: str) -> None:
        try:
            session.cursor.execute(sql)
        except psycopg.Error as error:
            if session.overdue:
                raise StoreUnavailable(f"{self.name} did not answer in time.") from error
            raise self.translated(error) from error

    def _connect(self) -> Session:
        where = self._resolve()
        try:
            connection = psycopg.connect(make_conninfo(self._conninfo, **where), autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailable(f"No connection to {self.name}: {_sentence(error)}") from error
        connection.prepared_max = 500
        session = Session(connection)
        if connection.info.server_version < OLDEST:
            connection.close()
            raise StoreError(f"{self.name} is older than PostgreSQL 14, the oldest that Ostinato works with.")
        settings = "; ".join(f"SET {name} TO {value}" for name, value in BY_INDEX.items())
        return self._said(
            session, f"SET TimeZone TO 'UTC'; {settings}; {_timeouts(self._deadline, 'SET')}", self._deadline
        )

    def translated(self, error: psycopg.Error) -> StoreError:
        """Translate an error of PostgreSQL or psycopg."""
        if isinstance(error, errors.UniqueViolation):
            return Duplicate(error.diag.constraint_name or "")
        if isinstance(error, psycopg.DataError) or (error.sqlstate or "")[:2] in OF_A_ROW:
            return RowRefused(f"{self.name} refused a row: {_sentence(error)}")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return StoreUnavailable(f"{self.name} is read-only now: {_sentence(error)}")
        if isinstance(error, errors.InsufficientPrivilege):
            return RightsMissing(f"The role of {self.name} lacks a right: {_sentence(error)} Grant it.")
        if isinstance(error, psycopg.OperationalError | errors.IdleInTransactionSessionTimeout):
            return StoreUnavailable(f"{self.name} does not answer: {_sentence(error)}")
        return StoreError(f"{self.name} refused: {_sentence(error)}")

    @contextmanager
    def borrow(self, connection: object) -> Iterator[Tx]:
        theirs = driver_connection(connection)
        if not isinstance(theirs, psycopg.Connection):
            raise Invalid(f"A connection of {type(theirs).__module__} cannot write to {self.name}: use psycopg 3.")
        if theirs.autocommit and theirs.info.transaction_status == TransactionStatus.IDLE:
            raise Invalid("That connection has no open transaction: open one with `connection.transaction()`.")
        session = Session(theirs)
        self._refuse_another_database(session)
        tx = _PostgresTx(self, session.cursor)
        self._execute(session, "SAVEPOINT ostinato")
        try:
            yield tx
            tx.refuse_if_failed()
            self._execute(session, (f"NOTIFY {self._channel}; " if tx.notifies else "") + "RELEASE ostinato")
        except BaseException:
            with suppress(psycopg.Error):
                session.cursor.execute("ROLLBACK TO ostinato; RELEASE ostinato")
            raise

    def _refuse_another_database(self, session: Session) -> None:
        if session.connection in self._known_same:
            return
        self._execute(session, IDENTITY)
        theirs = session.cursor.fetchone()
        if theirs != self._who:
            (self._who,) = self.ask(IDENTITY)
        if theirs != self._who:
            raise Invalid(f"That connection is on another database than {self.name}.")
        self._known_same.add(session.connection)

    def now(self) -> datetime:
        ((micros,),) = self.ask(CLOCK)
        return from_micros(micros)

    def ask(self, question: str) -> list[Row]:
        """Ask the server about itself."""
        with self._session(question, self._deadline) as session:
            return session.cursor.fetchall()

    def execute_long(self, sql: str, limit: float) -> None:
        """Execute a statement that may take up to `limit` seconds, outside of any transaction, on its own
        connection."""
        session = self._connect()
        try:
            self._watchdog.watch(session, limit)
            self._execute(session, f"SET statement_timeout TO {int(limit * 1000)}")
            self._execute(session, sql)
        finally:
            self._watchdog.leave(session)
            session.close()

    def upkeep(self) -> int:
        self._vacuum.clear()
        return 0

    def notify(self) -> None:
        with self._session(f"NOTIFY {self._channel}", self._deadline):
            pass

    def listen(self, on_notify: Callable[[], None]) -> NotifyListener:
        return ServerListener(self._listening_session, on_notify)

    def _listening_session(self) -> Session:
        session = self._said(self._connect(), f"LISTEN {self._channel}", self._deadline)
        self._watchdog.leave(session)
        return session

    def close(self) -> None:
        taken = [self._places.acquire(timeout=self._deadline) for _ in range(self._max_connections)]
        while self._idle:
            self._idle.pop().close()
        self._watchdog.close()
        for place in taken:
            if place:
                self._places.release()

    def start_over(self) -> None:
        self._inherited += self._idle  # closing them here would close the parent's
        self._begin_with_nothing()


def _timeouts(limit: float, verb: str) -> str:
    """Return the server's own timeouts: before the watchdog's, so that a slow statement does not cost the
    connection."""
    milliseconds = 0 if limit == float("inf") else int(limit * 1000)
    return (
        f"{verb} statement_timeout TO {milliseconds * 8 // 10}; {verb} lock_timeout TO {milliseconds // 2}; "
        f"{verb} idle_in_transaction_session_timeout TO {milliseconds * 2}"
    )


def _read(url: str) -> dict[str, Any]:
    with suppress(psycopg.Error):  # its message may contain a part of the password
        asked = conninfo_to_dict(url)
        if str(asked.get("port") or "0").replace(",", "").isdigit():  # else a / in the password, probably
            return asked
    raise InvalidSetting(
        "The database URL cannot be read: write postgresql://user:password@host:port/database, "
        "with the special characters of the password as %2F and the like."
    )


def _display_name(asked: Mapping[str, Any]) -> str:
    user = f"{asked['user']}@" if asked.get("user") else ""
    port = f":{asked['port']}" if asked.get("port") else ""
    return f"postgresql://{user}{asked.get('host', '')}{port}/{asked.get('dbname', '')}"


def _sentence(error: psycopg.Error) -> str:
    """Return the first line of the message, without the rows involved (they may be private)."""
    text = error.diag.message_primary or str(error).partition("\n")[0]
    return f"{text.strip().rstrip('.')}."
