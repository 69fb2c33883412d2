import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.clock import (
    Clock,
    ClockReading,
    JumpDetector,
    ManualClock,
    MeasuredClock,
    SystemClock,
    jump_between,
    read,
    uptime,
)
from ostinato.core.errors import Invalid, StoreUnavailable

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)


class Server:
    """A database server, `ahead` of the local clock; each question takes the next round trip of `trips`."""

    def __init__(self, ahead: timedelta, trips: list[tuple[float, float]]) -> None:
        self.here = ManualClock(NOON)
        self.ahead = ahead
        self.trips = trips

    def time(self) -> datetime:
        there, back = self.trips.pop(0) if self.trips else (0, 0)
        self.here.advance(timedelta(seconds=there))
        answer = self.here.now() + self.ahead
        self.here.advance(timedelta(seconds=back))
        return answer

    def clock(self) -> MeasuredClock:
        return MeasuredClock(self.time, self.here.monotonic)

    def error(self, clock: MeasuredClock) -> timedelta:
        return clock.now() - (self.here.now() + self.ahead)


class Scripted:
    """A clock that answers from a list."""

    def __init__(self, instants: Iterator[datetime], seconds: Iterator[float]) -> None:
        self.now: Callable[[], datetime] = instants.__next__
        self.monotonic: Callable[[], float] = seconds.__next__


def moved(wall: timedelta, passed: float) -> timedelta | None:
    return jump_between(ClockReading(NOON, 100.0), ClockReading(NOON + wall, 100.0 + passed))


class Host:
    """A host whose wall clock can be set, and a clock on it."""

    def __init__(self, zero: datetime | None = None) -> None:
        self.uptime = ManualClock(NOON)  # only its monotonic side is read
        self.ahead = timedelta(0)
        self.clock = MeasuredClock(self.wall, self.uptime.monotonic, own_host=True, zero=zero)

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.uptime.monotonic()) + self.ahead

    def pass_by(self, seconds: float, each: float = 0.5) -> list[timedelta]:
        """Read the clock repeatedly; return its differences from the true time."""
        off = []
        for _ in range(round(seconds / each)):
            self.uptime.advance(each)
            off.append(self.clock.now() - NOON - timedelta(seconds=self.uptime.monotonic()))
        return off


GLITCHES = [timedelta(hours=1), -timedelta(hours=1), timedelta(days=40), timedelta(days=3650)]


@pytest.mark.parametrize("glitch", [*GLITCHES, 1001 * MILLISECOND])
def test_a_clock_that_is_wrong_for_seconds_is_never_seen(glitch: timedelta) -> None:
    host = Host()
    host.pass_by(10)
    host.ahead = glitch
    assert set(host.pass_by(59)) == {timedelta(0)}
    host.ahead = timedelta(0)
    assert set(host.pass_by(120)) == {timedelta(0)}


@pytest.mark.parametrize("glitch", GLITCHES)
def test_a_clock_that_is_wrong_for_minutes_is_believed_after_one(glitch: timedelta) -> None:
    host = Host()
    host.pass_by(10)
    host.ahead = glitch
    off = host.pass_by(300)
    assert off == [timedelta(0)] * 120 + [glitch] * 480
    host.ahead = timedelta(0)
    off = host.pass_by(300)
    assert off == [glitch] * 120 + [timedelta(0)] * 480


def test_a_clock_that_jumps_about_is_not_believed() -> None:
    host = Host()
    for n in range(20):
        host.ahead = timedelta(hours=n)
        assert set(host.pass_by(30)) == {timedelta(0)}


def test_a_small_step_of_the_host_is_followed_and_never_seen_to_run_back() -> None:
    host = Host()
    host.pass_by(10)
    for step in (900, 0, 300, -300):
        host.ahead = step * MILLISECOND
        seen = []
        for _ in range(40):
            host.uptime.advance(0.05)
            seen.append(host.clock.now())
        assert seen == sorted(seen)
        assert seen[-1] == host.wall()


def test_a_clock_takes_over_the_line_of_others_while_the_host_is_wrong() -> None:
    host = Host(zero=NOON)
    host.ahead = timedelta(hours=1)
    assert set(host.pass_by(59)) == {timedelta(0)}
    assert host.clock.zero == NOON


def test_the_monotonic_clock_counts_the_sleep_of_the_host() -> None:
    """`time.monotonic` does not, on Linux; here at least they are not the same clock."""
    assert abs(uptime() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
    assert MeasuredClock(lambda: NOON).monotonic() == pytest.approx(uptime(), abs=60)


def test_the_system_clock_is_aware_and_counts() -> None:
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.parametrize(
    ("by", "passed"),
    [
        (timedelta(hours=36), timedelta(hours=36)),
        ("36h", timedelta(hours=36)),
        ("5s", 5 * SECOND),
        (30, 30 * SECOND),
        (0.25, 250 * MILLISECOND),
    ],
)
def test_advancing_a_manual_clock_moves_both_times(by: timedelta | str | float, passed: timedelta) -> None:
    clock = ManualClock(NOON)
    clock.advance(by)
    assert clock.now() == NOON + passed
    assert clock.monotonic() == passed.total_seconds()


def test_setting_a_manual_clock_is_a_jump_in_which_no_time_passes() -> None:
    clock = ManualClock(NOON)
    clock.advance("1m")
    clock.set(NOON - timedelta(days=1))
    assert clock.now() == NOON - timedelta(days=1)
    assert clock.monotonic() == 60.0


def test_a_manual_clock_speaks_utc_whatever_zone_it_is_given() -> None:
    clock = ManualClock(NOON.astimezone(timezone(timedelta(hours=2))))
    assert clock.now() == NOON
    assert clock.now().tzinfo is UTC


def test_time_cannot_pass_backwards() -> None:
    clock = ManualClock(NOON)
    with pytest.raises(Invalid):
        clock.advance(timedelta(seconds=-1))
    assert (clock.now(), clock.monotonic()) == (NOON, 0.0)


@pytest.mark.parametrize("give", [ManualClock, ManualClock(NOON).set, lambda naive: MeasuredClock(lambda: naive)])
def test_a_time_without_a_zone_is_refused(give: Callable[[datetime], object]) -> None:
    with pytest.raises(Invalid, match="has no time zone"):
        give(NOON.replace(tzinfo=None))


def test_a_thousand_small_steps_add_up_exactly() -> None:
    clock = ManualClock(NOON)
    for _ in range(1000):
        clock.advance("0.1s")
    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(seconds=100), 100.0)


def test_a_manual_clock_may_be_advanced_from_many_threads() -> None:
    clock = ManualClock(NOON)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(clock.advance, [SECOND] * 1000))
    assert (clock.now(), clock.monotonic()) == (NOON + timedelta(seconds=1000), 1000.0)


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(hours=-3), timedelta(days=400, microseconds=7)])
def test_a_measured_clock_shows_the_servers_time_and_goes_on_by_itself(ahead: timedelta) -> None:
    server = Server(ahead, [(0.002, 0.002)] * 3)
    clock = server.clock()
    assert server.error(clock) == timedelta(0)
    server.here.advance("10m")
    assert server.error(clock) == timedelta(0)
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() == server.here.monotonic()


@pytest.mark.parametrize(
    ("trips", "error"),
    [
        ([(0.01, 0.01), (0.01, 0.01), (0.01, 0.01)], timedelta(0)),
        ([(0.0, 0.1), (0.0, 0.1), (0.0, 0.1)], -50 * MILLISECOND),
        ([(0.1, 0.0), (0.1, 0.0), (0.1, 0.0)], 50 * MILLISECOND),
        ([(3.0, 0.0), (0.004, 0.0), (0.0, 9.0)], 2 * MILLISECOND),
        ([(0.002, 0.0), (0.3, 0.0), (0.3, 0.0)], MILLISECOND),
    ],
)
def test_the_middle_of_the_quickest_round_trip_counts(trips: list[tuple[float, float]], error: timedelta) -> None:
    server = Server(timedelta(hours=1), trips)
    assert server.error(server.clock()) == error


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), min_size=3, max_size=3),
    st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
)
def test_the_error_is_at_most_half_the_quickest_round_trip(trips: list[tuple[int, int]], ahead: timedelta) -> None:
    server = Server(ahead, [(there / 1000, back / 1000) for there, back in trips])
    quickest = min(there + back for there, back in trips) * MILLISECOND
    assert abs(server.error(server.clock())) <= quickest / 2 + timedelta(microseconds=2)


@pytest.mark.parametrize("by", [SECOND + MILLISECOND, timedelta(hours=1), timedelta(days=3650)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_server_whose_clock_was_set_is_believed_after_a_minute(by: timedelta, sign: int) -> None:
    server = Server(timedelta(0), [])
    clock = server.clock()
    server.ahead = sign * by
    for passed in range(0, 60, 10):
        assert clock.now() == NOON + passed * SECOND
        clock.remeasure()
        server.here.advance(10 * SECOND)
    clock.remeasure()
    assert clock.now() == NOON + sign * by + 60 * SECOND


def test_a_step_of_a_second_is_followed_at_once() -> None:
    server = Server(timedelta(0), [])
    clock = server.clock()
    server.ahead = SECOND
    clock.remeasure()
    assert clock.now() == NOON + SECOND


def test_a_small_correction_back_makes_the_clock_stand_still_until_time_has_caught_up() -> None:
    server = Server(timedelta(0), [])
    clock = server.clock()
    assert clock.now() == NOON
    server.ahead = -SECOND
    clock.remeasure()
    seen = []
    for _ in range(5):
        seen.append(clock.now() - NOON)
        server.here.advance(400 * MILLISECOND)
    assert seen == [timedelta(0)] * 3 + [200 * MILLISECOND, 600 * MILLISECOND]


def test_a_server_that_does_not_answer_leaves_the_old_offset() -> None:
    answers = iter([NOON] * 3)

    def measure() -> datetime:
        for answer in answers:
            return answer
        raise StoreUnavailable("The database does not answer.")

    clock = MeasuredClock(measure, lambda: 5.0)
    with pytest.raises(StoreUnavailable):
        clock.remeasure()
    assert clock.now() == NOON


def test_threads_that_read_while_another_remeasures_never_see_the_clock_run_back() -> None:
    server = Server(timedelta(0), [])
    clock = server.clock()

    def look(_: int) -> bool:
        server.ahead = -server.ahead or 300 * MILLISECOND
        clock.remeasure()
        seen = [clock.now() for _ in range(50)]
        return seen == sorted(seen)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(look, range(200)))


@pytest.mark.parametrize(
    ("wall", "passed", "jump"),
    [
        (timedelta(0), 0.0, None),
        (10 * SECOND, 10.0, None),
        (11 * SECOND, 10.0, None),
        (9 * SECOND, 10.0, None),
        (11 * SECOND + MILLISECOND, 10.0, SECOND + MILLISECOND),
        (9 * SECOND - MILLISECOND, 10.0, -SECOND - MILLISECOND),
        (timedelta(hours=1), 0.0, timedelta(hours=1)),
        (-timedelta(days=3650), 5.0, -timedelta(days=3650, seconds=5)),
        (timedelta(0), 60.0, -timedelta(minutes=1)),
    ],
)
def test_a_jump_is_what_the_wall_clock_moved_beside_the_monotonic_one(
    wall: timedelta, passed: float, jump: timedelta | None
) -> None:
    assert moved(wall, passed) == jump


def test_a_jump_is_told_once() -> None:
    clock = ManualClock(NOON)
    detector = JumpDetector(clock)
    clock.advance("10m")
    assert detector.jump() is None
    clock.set(clock.now() - timedelta(hours=1))
    clock.advance("5s")
    assert detector.jump() == timedelta(hours=-1)
    assert detector.jump() is None


def test_slow_correction_is_not_a_jump() -> None:
    clock = ManualClock(NOON)
    detector = JumpDetector(clock)
    for _ in range(10):
        clock.advance("10s")
        clock.set(clock.now() + 500 * MILLISECOND)
        assert detector.jump() is None


def test_a_jump_of_the_database_server_is_seen_when_it_is_measured() -> None:
    server = Server(timedelta(0), [])
    clock = server.clock()
    detector = JumpDetector(clock)
    server.ahead = timedelta(hours=-1)
    assert detector.jump() is None
    clock.remeasure()
    assert detector.jump() is None
    server.here.advance("1m")
    clock.remeasure()
    assert detector.jump() == timedelta(hours=-1)


def test_a_process_held_up_between_its_two_looks_at_the_clock_looks_again() -> None:
    clock = Scripted(iter([NOON, NOON + 30 * SECOND]), iter([1.0, 31.0, 31.0, 31.01]))
    assert read(clock) == ClockReading(NOON + 30 * SECOND, 31.0)
