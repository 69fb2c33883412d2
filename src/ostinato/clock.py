"""Clocks: what time it is, and how much of it has passed.

There are two kinds of time. `now()` is the wall clock, in UTC: due times, leases and history are written in
it, and somebody may set it. `monotonic()` only counts seconds: how long something took and how long to wait
are measured in it. Whoever needs the time is handed a Clock, so that a test can hand over one that it cranks.

All processes on one database must agree on `now()`. On SQLite they share a host, and its clock is theirs
(SystemClock). On PostgreSQL they follow the server's, asked now and then and counted on locally between
(MeasuredClock).
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple, Protocol

from ostinato.core.duration import parse_duration
from ostinato.core.errors import Invalid

SAMPLES = 3
WORTH_TELLING = timedelta(seconds=1)
PROMPT = 0.1


class Clock(Protocol):
    """The time, for whoever needs it."""

    def now(self) -> datetime:
        """The instant, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back, whatever is done to the wall clock."""


class SystemClock:
    """The clock of this host."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class MeasuredClock:
    """The clock of a database server: local monotonic time, plus an offset that is measured now and then.

    `measure` asks the server for its time. The answer is taken to be true in the middle of the round trip, so
    it is wrong by half the round trip at most; the quickest of a few is kept. Call `remeasure` from time to
    time: two hosts drift apart, a server's clock is set, a laptop that sleeps does not count.

    A correction backwards of a second or less is measuring error or drift: `now()` then stands still until
    time has caught up, so that nobody sees it run back. A longer one means that the server's clock was set
    back: `now()` follows at once, since standing still for an hour would stop every schedule.
    """

    def __init__(
        self, measure: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._lock = Lock()
        self._zero = self._measured_zero()
        self._latest = self._zero

    def now(self) -> datetime:
        with self._lock:
            counted = self._zero + timedelta(seconds=self._monotonic())
            if not timedelta(0) < self._latest - counted <= WORTH_TELLING:
                self._latest = counted
            return self._latest

    def monotonic(self) -> float:
        return self._monotonic()

    def remeasure(self) -> None:
        """Ask the server again. If it does not answer, its error is raised and the old offset stays."""
        zero = self._measured_zero()  # not under the lock: nobody waits for a round trip to learn the time
        with self._lock:
            self._zero = zero

    def _measured_zero(self) -> datetime:
        """What the server's clock showed when the local monotonic one stood at zero."""
        return min(self._sample() for _ in range(SAMPLES)).zero

    def _sample(self) -> "_Sample":
        asked = self._monotonic()
        answer = _utc(self._measure())
        took = self._monotonic() - asked
        return _Sample(took, answer - timedelta(seconds=asked + took / 2))


class _Sample(NamedTuple):
    """One question to the server; the quickest compares as the least."""

    took: float
    zero: datetime


class ManualClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime) -> None:
        self._lock = Lock()
        self._now = _utc(start)
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def advance(self, by: timedelta | str | float) -> None:
        """Let time pass: a timedelta, seconds, or text like "36h"."""
        step = parse_duration(by)
        with self._lock:
            self._now += step
            self._passed += step

    def set(self, instant: datetime) -> None:
        """Set the wall clock, as an operator or NTP would: no time passes."""
        with self._lock:
            self._now = _utc(instant)


class Reading(NamedTuple):
    """Both times of a clock at one moment."""

    now: datetime
    monotonic: float


def read(clock: Clock) -> Reading:
    """Read both times together, again if the process was held up in between (that would look like a jump)."""
    while True:
        before = clock.monotonic()
        now = clock.now()
        if clock.monotonic() - before < PROMPT:
            return Reading(now, before)


def jump_between(first: Reading, second: Reading) -> timedelta | None:
    """How far the wall clock was moved between two readings, if it is worth telling; negative is back."""
    passed = timedelta(seconds=second.monotonic - first.monotonic)
    moved = (second.now - first.now) - passed
    return moved if abs(moved) > WORTH_TELLING else None


class JumpDetector:
    """Notices that somebody has set the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = read(clock)

    def jump(self) -> timedelta | None:
        """How far the wall clock was moved since the last call; None if it only ran."""
        last, self._last = self._last, read(self._clock)
        return jump_between(last, self._last)


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise Invalid(f"The time {instant} has no time zone; say which one is meant, for example UTC.")
    return instant.astimezone(UTC)
