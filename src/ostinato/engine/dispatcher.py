"""The dispatcher: it fires due jobs, so that each becomes a queued execution."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ostinato.clock import HOLDS_FOR, Clock, JumpDetector, MeasuredClock
from ostinato.core.model import Chance, Event
from ostinato.core.times import CLOCKS_AGREE, DAY, zone_data_version
from ostinato.store.audit import ZONE_DATA, ZONES_SINCE
from ostinato.store.store import Store
from ostinato.telemetry.reports import Telemetry

AHEAD: Final = timedelta(seconds=0.5)  # due times within this are fired ahead; claims still wait for them
BATCH: Final = 500
FOLLOW_EVERY: Final = timedelta(seconds=1)
LOOK_AGAIN: Final = timedelta(seconds=1)  # while the start waits until the clock is trusted
LINE_MOVED: Final = timedelta(milliseconds=100)  # a shift this large writes the clock's line again


@dataclass(frozen=True, slots=True)
class StepReport:
    """The number of rows that a step moved, and the time of the next step (None: after a notification)."""

    moved: int
    wake_at: datetime | None


class Dispatcher:
    """The step that fires due jobs. Several dispatchers may work on one database."""

    def __init__(
        self, store: Store, clock: Clock, chance: Chance, telemetry: Telemetry, ahead: timedelta = AHEAD
    ) -> None:
        self._store, self._ahead = store, ahead
        self._clock = clock
        self._chance = chance
        self._telemetry = telemetry
        self._jumps = JumpDetector(clock)
        self._jumped: timedelta | None = None
        self._stepped_at = self._made_at = clock.monotonic()
        self._made = clock.now()
        self.waits = False  # for a clock that is not trusted yet
        self._line_kept: datetime | None = None
        self._followed_at = float("-inf")
        self._followers = False  # whether any job runs after another

    def start(self) -> None:
        """Check due times once that another clock (one that was ahead) or older zone data has computed.

        A clock behind the last sign of a worker is trusted only after a minute: until then each step only repeats this
        check.
        """
        now = self._clock.now()
        seen = self._store.clock_record.last_seen(self._made, now)
        behind = seen is not None and seen.renewed_at > now + CLOCKS_AGREE
        self.waits = behind and self._clock.monotonic() - self._made_at < HOLDS_FOR
        if self.waits:
            return
        if seen is not None and behind:
            self._jumped = now - seen.renewed_at
            self._telemetry.clock_jumped(self._jumped)
        elif seen is not None and not seen.stopped and now - seen.renewed_at > DAY:
            self._store.clock_record.jumped(now)  # or the host was off
        self._store.queue.rewind(now)
        version = zone_data_version()
        if (known := self._store.remembered(ZONE_DATA) or "") < version:
            self._store.queue.rezone(now)
            self._store.remember(ZONE_DATA, version)
            if known:
                self._store.remember(ZONES_SINCE, now.isoformat())

    def idle_for(self) -> float:
        """Seconds since the last completed step. Safe to call on any thread."""
        return self._clock.monotonic() - self._stepped_at

    def step(self) -> StepReport:
        """Fire due jobs, and admit executions whose time has come or whose limit has room."""
        if self.waits:
            self.start()
        done = StepReport(0, self._clock.now() + LOOK_AGAIN) if self.waits else self._step()
        self._stepped_at = self._clock.monotonic()
        return done

    def _step(self) -> StepReport:
        self._notice_jump()
        self._keep_line()
        fired = self._fire()
        followed = self._follow()
        gate = self._store.queue.let_through(self._clock.now())
        wakes = [at for at in (fired.wake_at, followed.wake_at, gate.next_at) if at is not None]
        return StepReport(fired.moved + followed.moved + gate.passed, min(wakes, default=None))

    def _follow(self) -> StepReport:
        """Start jobs that run after a completed job. No notification announces these: while there are such jobs, look
        every second."""
        now, at = self._clock.now(), self._clock.monotonic()
        if at - self._followed_at < FOLLOW_EVERY.total_seconds() and not self._followers:
            return StepReport(0, None)
        self._followed_at = at
        followed = self._store.queue.follow(now)
        self._followers = followed.any
        self._telemetry.changed(followed.changes)
        wake = None if not followed.any else now if followed.changes else now + FOLLOW_EVERY
        return StepReport(len(followed.changes), wake)

    def _fire(self) -> StepReport:
        queue, now = self._store.queue, self._clock.now()
        wake = queue.next_wake()
        if wake is None or wake > now + self._ahead:
            return StepReport(0, self._ahead_of(wake, now))
        changes = queue.fire_due(self._clock.now, self._ahead, BATCH)
        moved = len(changes) + queue.time_has_come(now, BATCH)
        self._telemetry.changed(changes)
        return StepReport(moved, now if moved >= BATCH else self._ahead_of(queue.next_wake(), now))

    def _ahead_of(self, wake: datetime | None, now: datetime) -> datetime | None:
        """Return the time of the next step: early enough to fire ahead, or the due time itself."""
        return wake if wake is None or wake <= now + self._ahead else wake - self._ahead

    def _notice_jump(self) -> None:
        """Handle a jump of the clock. It counts as handled only when that succeeds: the database may be unavailable."""
        by = self._jumps.jump()
        if by is not None:
            self._telemetry.clock_jumped(by)
            self._jumped = by + (self._jumped or timedelta(0))
        if self._jumped is not None:
            self._deal_with_jump(self._jumped)
            self._jumped = None

    def _keep_line(self) -> None:
        """Save the clock's line, for processes that start on this host."""
        clock = self._clock
        if not isinstance(clock, MeasuredClock) or not clock.own_host:
            return
        if self._line_kept is None or abs(clock.zero - self._line_kept) > LINE_MOVED:
            self._line_kept = clock.zero
            self._store.clock_record.keep_zero(clock.zero)

    def _deal_with_jump(self, by: timedelta) -> None:
        now = self._clock.now()
        self._store.clock_record.jumped(now)
        if by < timedelta(0):
            self._store.queue.rewind(now)
        data = f'{{"seconds": {by.total_seconds():g}}}'
        self._store.history.tell([Event(self._chance.id(now), now, "clock.jumped", data=data)])
