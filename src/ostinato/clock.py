"""Clocks: what time it is, and how much of it has passed.

There are two kinds of time. `now()` is the wall clock, in UTC: due times, leases and history are written in
it, and it can be set. `monotonic()` only counts seconds, those of a sleeping host too: how long something took and
how long to wait are measured in it. Code that needs the time is handed a Clock, so that a test can crank it.

All processes on one database must agree on `now()`, and a clock that is wrong for a moment must harm nothing. So
MeasuredClock counts on from a line that it trusts. On PostgreSQL it measures the server now and then, on SQLite the
host at each `now()`. A measurement that is more than a second off the line has to hold for a minute first.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final, NamedTuple, Protocol

from ostinato.core.duration import CLOCKS_AGREE, parse_duration
from ostinato.core.errors import Invalid

SAMPLES = 3
PROMPT = 0.1
FRESH_FOR: Final = timedelta(milliseconds=250)  # until the host's clock is compared with the line again
HOLDS_FOR: Final = 60.0  # seconds until a line that is more than a second off is believed

# Seconds since the host started, those of its sleep included (macOS: its CLOCK_MONOTONIC counts them).
uptime: Final[Callable[[], float]] = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


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
        return uptime()


class MeasuredClock:
    """A clock that counts on from a trusted line: local monotonic time, plus an offset that is measured.

    `measure` asks a database server for its time. The answer is taken to be true in the middle of the round trip, so
    it is wrong by half the round trip at most; the quickest of a few is kept. Call `remeasure` from time to
    time: two hosts drift apart, and a server's clock is set. With `own_host` each `now()` measures.

    A correction of a second or less is measuring error or drift, and is followed at once; backwards `now()` stands
    still until time has caught up, so that it never runs back. A larger one is not believed until it has held for
    HOLDS_FOR: until then `now()` stays on its line, so a clock that is wrong for some seconds is never seen.
    """

    def __init__(
        self,
        measure: Callable[[], datetime],
        monotonic: Callable[[], float] = uptime,
        *,
        own_host: bool = False,
        zero: datetime | None = None,
    ) -> None:
        """`zero`: the line of processes that are at work, if there is one."""
        self._measure = measure
        self._monotonic = monotonic
        self.own_host = own_host
        self._lock = Lock()
        self._zero = zero or self._measured_zero()
        self._latest = self._fresh_until = self._zero
        self._other: datetime | None = None  # the zero of another line, which has to hold
        self._since = 0.0

    def now(self) -> datetime:
        if self.own_host:
            host = self._measure()
            if self._latest <= host < self._fresh_until:  # a jump within this is a small step
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
        """The line: what the trusted clock showed when the monotonic one stood at zero."""
        return self._zero

    def remeasure(self) -> None:
        """Ask the server again. If it does not answer, its error is raised and the old offset stays."""
        zero = self._measured_zero()  # not under the lock: no thread waits for a round trip to learn the time
        with self._lock:
            self._follow(zero, self._monotonic())

    def _follow(self, zero: datetime, at: float) -> None:
        """Follow a measurement that is close to the line, or that has held for long enough."""
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


class ClockReading(NamedTuple):
    """Both times of a clock at one moment."""

    now: datetime
    monotonic: float


def read(clock: Clock) -> ClockReading:
    """Read both times together, again if the process was held up in between (that would look like a jump)."""
    while True:
        before = clock.monotonic()
        now = clock.now()
        if clock.monotonic() - before < PROMPT:
            return ClockReading(now, before)


def jump_between(first: ClockReading, second: ClockReading) -> timedelta | None:
    """Return the jump of the wall clock between two readings, if it is large enough; negative is back."""
    passed = timedelta(seconds=second.monotonic - first.monotonic)
    moved = (second.now - first.now) - passed
    return moved if abs(moved) > CLOCKS_AGREE else None


class JumpDetector:
    """Notices that somebody has set the wall clock."""

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
