"""Logs of runs: lines in the order of arrival, up to a size per execution.

A worker writes many lines at once, of several executions. Lines are numbered from 1 in each execution, so that a reader
continues after the last number it has read. They are deleted with their execution.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from ostinato.core.read_models import KeptLine, LogPage, Stream
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_uuid

LEAST_COUNTED: Final = 16  # bytes: even a short line costs a row
CHECKED: Final = 500  # executions per check for logs without an execution


class LogLine(NamedTuple):
    """A log line before it is stored."""

    execution_id: UUID
    at: datetime
    level: int
    stream: Stream
    text: str
    size: int  # bytes, as counted


def size_of(text: str) -> int:
    """Return the counted size of a line, with its line end."""
    return max(len(text.encode("utf-8", "replace")) + 1, LEAST_COUNTED)


@dataclass(slots=True)
class _Size:
    """The size of a log."""

    lines: int
    bytes: int
    cut: int
    new: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, line: LogLine, most: int) -> None:
        """Number a line. After a line that does not fit, none is accepted: a log with holes would mislead."""
        if self.cut or self.bytes + line.size > most:
            self.cut += line.size
            return
        self.lines += 1
        self.bytes += line.size
        self.new.append((line.execution_id, self.lines, line.at, line.level, line.stream.value, line.text))


class Logs:
    """Table of the lines of all executions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, lines: Sequence[LogLine], cut: dict[UUID, int], most: int) -> None:
        """Store lines while each log is shorter than `most` bytes, and count the bytes that were cut before."""
        ids = sorted({line.execution_id for line in lines} | cut.keys())
        with self._database.write() as tx:
            found = tx.rows("lock_log_sizes", [(each,) for each in ids])
            sizes = {to_uuid(row[0]): _Size(*row[1:]) for row in found}
            for line in lines:
                if (size := sizes.get(line.execution_id)) is not None:
                    size.take(line, most)
            for execution_id, bytes_ in cut.items():
                if (size := sizes.get(execution_id)) is not None:
                    size.cut += bytes_
            self._save(tx, sizes)

    def _save(self, tx: Tx, sizes: dict[UUID, _Size]) -> None:
        if new := [row for size in sizes.values() for row in size.new]:
            tx.run("insert_logs", new)
        if sizes:
            rows = [(each, size.lines, size.bytes, size.cut) for each, size in sizes.items()]
            tx.run("save_log_sizes", rows)

    def read(self, execution_id: UUID, after: int = 0, level: int = 0, limit: int = 1000) -> LogPage:
        """Return lines after a number with at least this level; none for an execution without a log."""
        with self._database.read() as tx:
            size = tx.row("log_size", id=execution_id)
            found = tx.rows("log_lines", id=execution_id, after_number=after, least=level, limit=limit)
        lines = tuple(KeptLine(n, from_micros(at), grave, Stream(s), text) for n, at, grave, s, text in found)
        last, cut = (0, 0) if size is None else (size[0], size[2])
        if len(lines) == limit:
            last = lines[-1].number
        return LogPage(lines, max(after, last), cut)

    def remove_orphans(self, after: UUID) -> UUID | None:
        """Check the next logs after an id; return where to continue, None at the end."""
        with self._database.read() as tx:
            found = [(to_uuid(i), there) for i, there in tx.rows("log_sizes_after", after=after, limit=CHECKED)]
        if orphans := [execution_id for execution_id, there in found if not there]:
            with self._database.write() as tx:
                delete_logs_of(tx, orphans)
        return found[-1][0] if len(found) == CHECKED else None


def delete_logs_of(tx: Tx, ids: Iterable[UUID]) -> None:
    """Delete logs in the transaction that deletes their executions."""
    chosen = list(ids)
    tx.run("delete_logs", ids=chosen)
    tx.run("delete_log_sizes", ids=chosen)
