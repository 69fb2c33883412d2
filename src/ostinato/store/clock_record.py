"""The clock's record in the database: its last jump, and the time line of the workers on a SQLite file.

For a day after a jump no row is deleted because of its age. A process that starts beside a running worker takes over
that worker's line: the host's clock may be wrong just then.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from ostinato.core.errors import NOT_READABLE
from ostinato.core.model import EPOCH
from ostinato.core.times import CLOCKS_AGREE
from ostinato.store.database import Database, Tx
from ostinato.store.rows import from_micros, to_micros

LINE: Final = "clock"
JUMPED: Final = "clock_jumped"
SETTLED_AFTER: Final = timedelta(days=1)  # since the last jump
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _LastSeen:
    """The worker that was seen last before this process, and whether it stopped in order."""

    renewed_at: datetime
    stopped: bool


class ClockRecord:
    """Notes about the clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def jumped(self, now: datetime) -> None:
        """Note that the clock has jumped to now."""
        with self._database.write() as tx:
            tx.run("remember", key=JUMPED, value=str(to_micros(now)))

    def jumped_at(self) -> datetime | None:
        """Return the time of the last jump of the clock."""
        with self._database.read() as tx:
            return noted_instant(tx, JUMPED)

    def settled(self, now: datetime) -> bool:
        """Return True if ages can be trusted: the last jump is long enough ago."""
        with self._database.read() as tx:
            return is_settled(tx, now)

    def last_seen(self, since: datetime, now: datetime) -> _LastSeen | None:
        """Return the worker that renewed last; those that started after `since`, by the current clock, are left out."""
        with self._database.read() as tx:
            row = tx.row("last_worker_seen", since=since, now=now + CLOCKS_AGREE)
        return None if row is None else _LastSeen(from_micros(row[0]), row[1] == "stopped")

    def zero(self, uptime: float) -> datetime | None:
        """Return the line of the running workers, if this host has not restarted since and a lease is valid on it."""
        with self._database.read() as tx:
            note, leases = tx.row("remembered", key=LINE), tx.rows("open_leases")
        zero = None if note is None else _zero_of(note[0])
        if zero is None:
            return None
        now = zero + timedelta(seconds=uptime)
        held = [(from_micros(renewed), from_micros(until)) for _, renewed, until in leases]
        return zero if any(renewed <= now + CLOCKS_AGREE and now < until for renewed, until in held) else None

    def keep_zero(self, zero: datetime) -> None:
        """Note the line that this worker uses."""
        text = json.dumps({"boot": boot_id(), "zero": to_micros(zero)})
        with self._database.write() as tx:
            tx.run("remember", key=LINE, value=text)


def is_settled(tx: Tx, now: datetime) -> bool:
    """Return True if the last jump of the clock is long enough ago to trust ages."""
    jumped = noted_instant(tx, JUMPED)
    return jumped is None or now - jumped >= SETTLED_AFTER


def forgettable(tx: Tx, now: datetime) -> datetime:
    """Return the instant to count ages from: now, or the earliest instant while the clock has not settled."""
    return now if is_settled(tx, now) else EPOCH


def boot_id() -> str:
    """Return the id of this boot of the host; "" if the system has none: then no line is taken over."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def noted_instant(tx: Tx, key: str) -> datetime | None:
    """Read an instant that is noted under a key; None if there is none, or if it cannot be read."""
    row = tx.row("remembered", key=key)
    try:
        return None if row is None else from_micros(int(row[0]))
    except NOT_READABLE:
        return None


def _zero_of(note: str) -> datetime | None:
    """Read the line of the workers; None if it is from another boot of the host, or cannot be read."""
    try:
        saved = json.loads(note)
        return from_micros(saved["zero"]) if saved["boot"] and saved["boot"] == boot_id() else None
    except NOT_READABLE:
        return None
