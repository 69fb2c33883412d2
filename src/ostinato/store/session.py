"""A connection to PostgreSQL, and what can be known of it without asking."""

import os
import select
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import RawCursor
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import ByteaBinaryLoader

from ostinato.core.errors import StoreUnavailable
from ostinato.store.arrays import DUMPERS

Connection = psycopg.Connection[Any]
Cursor = RawCursor[Any]


class Session:
    """A connection and its one cursor; also an ear, for the doorbell."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cursor = _cursor(connection)
        self.overdue = False

    @property
    def is_connected(self) -> bool:
        """As far as can be known without asking: a server that goes says so."""
        line = self.connection.pgconn
        while line.status == ConnStatus.OK and self._has_heard_something():
            with suppress(psycopg.Error):  # a farewell, or a notice
                line.consume_input()
        return line.status == ConnStatus.OK

    @property
    def usable(self) -> bool:
        return self.connection.info.transaction_status == TransactionStatus.IDLE

    def shut(self) -> None:
        """Let whoever waits on this connection find it broken, at once."""
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
            raise StoreUnavailable("The doorbell's connection is gone.") from error
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
    # SQLite returns bytes, too, and they are cheaper to compare.
    cursor.adapters.register_loader("uuid", ByteaBinaryLoader)
    return cursor
