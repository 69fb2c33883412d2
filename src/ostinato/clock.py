"""Clocks: the wall clock, and the time that has passed.

There are two kinds of time. `now()` is the wall clock, in UTC, which can be set: due times, leases and history use it.
`monotonic()` only counts seconds, also while the host sleeps: durations and waits use it. Code that needs the time
gets a Clock as an argument, so that a test can advance it.

All processes on one database must agree on `now()`, and a clock that is wrong for a moment must do no harm. So
MeasuredClock counts on from a trusted line. On PostgreSQL it measures the server now and then, on SQLite the host at
each `now()`. It follows a measurement more than a second off the line only after a minute.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final, NamedTuple, Protocol

from ostinato.core.errors import Invalid
from ostinato.core.times import CLOCKS_AGREE, parse_duration

SAMPLES = 3
PROMPT = 0.1
FRESH_FOR: Final = timedelta(milliseconds=250)  # until the next comparison of the host's clock with the line
HOLDS_FOR: Final = 60.0  # seconds until a line that is more than a second off is followed

# Seconds since the host started, including its sleep (on macOS, CLOCK_MONOTONIC includes it).
uptime: Final[Callable[[], float]] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(Protocol):
    """Source of the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""

    def monotonic(self) -> float:
        """Return the seconds since some moment; they never go back, even if the wall clock is set."""


class SystemClock:
    """The clock of this host."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return uptime()


class MeasuredClock:
    """A clock that counts on from a trusted line: local monotonic time, plus a measured offset.

    `measure` asks a database server for its time. The answer counts for the middle of the round trip, so its error is
    at most half the round trip; the quickest of a few answers is used. Call `remeasure` from time to time: two hosts
    drift apart, and a server's clock may be set. With `own_host` each `now()` measures.

    A correction of a second or less is measuring error or drift, and is followed at once. If it goes back, `now()`
    stands still until time has caught up, so it never runs back. A larger correction is followed only after HOLDS_FOR.
    Until then `now()` stays on its line, so a clock that is wrong for some seconds has no effect.
    """

    def __init__(
        self,
        measure: Callable[[], datetime],
        monotonic: Callable[[], float] = uptime,
        *,
        own_host: bool = False,
        zero: datetime | None = None,
    ) -> None:
        """`zero`: the line of running processes, if there is one."""
        self._measure = measure
        self._monotonic = monotonic
        self.own_host = own_host
        self._lock = Lock()
        self._zero = zero or self._measured_zero()
        self._latest = self._fresh_until = self._zero
        self._other: datetime | None = None  # the zero of a possible new line
        self._since = 0.0

    def now(self) -> datetime:
        if self.own_host:
            host = self._measure()
            if self._latest <= host < self._fresh_until:  # within this, a jump is a small step
                self._latest = host
                return host
            self._follow_host(host)
        with self._lock:
            counted = self._zero + timedelta(0, self._monotonic())
            if counted >= self._latest or self._latest - counted > CLOCKS_AGREE:
                self._latest = counted
            return self._latest

    def _follow_host(self, host: datetime) -> None:
        at = self._monotonic()
        with self._lock:
            self._follow(host - timedelta(seconds=at), at)
            self._fresh_until = host + FRESH_FOR if self._other is None else self._latest

    def monotonic(self) -> float:
        return self._monotonic()

    @property
    def zero(self) -> datetime:
        """The line: the trusted clock's time at zero of the monotonic clock."""
        return self._zero

    def remeasure(self) -> None:
        """Ask the server again. If it does not answer, raise its error and keep the old offset."""
        zero = self._measured_zero()  # without the lock: no thread may wait for a round trip to get the time
        with self._lock:
            self._follow(zero, self._monotonic())

    def _follow(self, zero: datetime, at: float) -> None:
        """Follow a measurement that is close to the line, or has been stable for HOLDS_FOR."""
        if -CLOCKS_AGREE <= zero - self._zero <= CLOCKS_AGREE:
            self._zero, self._other = zero, None
        elif self._other is None or abs(zero - self._other) > CLOCKS_AGREE:
            self._other, self._since = zero, at
        elif at - self._since >= HOLDS_FOR:
            self._zero, self._other = zero, None

    def _measured_zero(self) -> datetime:
        """Return the server's time at zero of the local monotonic clock."""
        return min(self._sample() for _ in range(SAMPLES)).zero

    def _sample(self) -> "_Sample":
        asked = self._monotonic()
        answer = _utc(self._measure())
        took = self._monotonic() - asked
        return _Sample(took, answer - timedelta(seconds=asked + took / 2))


class _Sample(NamedTuple):
    """One answer of the server; the quickest compares as the least."""

    took: float
    zero: datetime


class ManualClock:
    """A clock that moves only by `advance` and `set`."""

    def __init__(self, start: datetime) -> None:
        self._lock = Lock()
        self._now = _utc(start)
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def advance(self, by: timedelta | str | float) -> None:
        """Let time pass: a timedelta, seconds, or a text like "36h"."""
        step = parse_duration(by)
        with self._lock:
            self._now += step
            self._passed += step

    def set(self, instant: datetime) -> None:
        """Set the wall clock, as an operator or NTP would; no time passes."""
        with self._lock:
            self._now = _utc(instant)


class ClockReading(NamedTuple):
    """Both times of a clock at one moment."""

    now: datetime
    monotonic: float


def read(clock: Clock) -> ClockReading:
    """Read both times together; repeat if the process was delayed in between, which would look like a jump."""
    while True:
        before = clock.monotonic()
        now = clock.now()
        if clock.monotonic() - before < PROMPT:
            return ClockReading(now, before)


def jump_between(first: ClockReading, second: ClockReading) -> timedelta | None:
    """Return the jump of the wall clock between two readings, or None if it is small; negative is back."""
    passed = timedelta(seconds=second.monotonic - first.monotonic)
    moved = (second.now - first.now) - passed
    return moved if abs(moved) > CLOCKS_AGREE else None


class JumpDetector:
    """Detector of jumps of the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = read(clock)

    def jump(self) -> timedelta | None:
        """Return the jump of the wall clock since the last call; None without one."""
        last, self._last = self._last, read(self._clock)
        return jump_between(last, self._last)


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise Invalid(f"The time {instant} has no time zone; say which one is meant, for example UTC.")
    return instant.astimezone(UTC)
