"""Clocks that are wrong for seconds or minutes, under a worker, on both databases: no irreversible change happens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ostinato.clock import HOLDS_FOR, ManualClock, MeasuredClock
from ostinato.core.read_models import Answered, RepeatableRequest
from ostinato.engine.dispatcher import Dispatcher
from ostinato.engine.sweeper import Sweeper
from ostinato.store.clock_record import ClockRecord, boot_id
from ostinato.store.dialect import DatabaseKind
from ostinato.store.history import Keep
from ostinato.store.workers import NewWorker
from ostinato.task import Task
from tests.build import DAY, HOUR, MINUTE, NOW, SECOND
from tests.engine.at_work import done, idle
from tests.engine.conftest import LEASE, Rig

PERIOD = 10 * SECOND
KEEP = Keep(executions=5, days=30)
GLITCHES = {"+1h": HOUR, "-1h": -HOUR, "+40d": 40 * DAY, "+10y": 3650 * DAY}


class Host:
    """A host whose wall clock can be set, and its processes, all driven by hand."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.ahead, self.uptime = rig, timedelta(0), ManualClock(NOW)
        self.own = rig.store.database.dialect.kind is DatabaseKind.SQLITE
        rig.clock = self.clock = MeasuredClock(self.wall, self.uptime.monotonic, own_host=self.own)  # type: ignore[assignment]
        rig.registry.add(Task(done, "work"))
        self.dispatcher = rig.dispatcher()
        self.sweeper = Sweeper(rig.store, self.clock, rig.chance, rig.telemetry, LEASE, KEEP)

    def wall(self) -> datetime:
        return self.true_time() + self.ahead

    def true_time(self) -> datetime:
        return NOW + timedelta(seconds=self.uptime.monotonic())

    async def pass_by(self, length: timedelta, each: timedelta = PERIOD) -> None:
        """Let time pass, with every duty after each step."""
        for _ in range(length // each):
            self.uptime.advance(each)
            self.clock.remeasure()
            self.worker.lease.renew(0)
            self.dispatcher.step()
            await self.worker.step()
            await idle(self.worker)
            self.sweeper.tidy()

    async def start(self) -> UUID:
        self.worker = await self.rig.worker()
        (job_id,) = self.rig.add(every=PERIOD)
        return job_id

    def due_times(self, job_id: UUID) -> list[datetime]:
        return sorted(each.due_at for each in self.rig.store.history.of_job(job_id, 10_000))

    def skips(self, job_id: UUID) -> list[Any]:
        return self.rig.store.history.skips(job_id, 10_000)


@pytest.fixture
def host(rig: Rig) -> Host:
    return Host(rig)


def ten_seconds(first: int, last: int) -> list[datetime]:
    return [NOW + n * PERIOD for n in range(first, last + 1)]


@pytest.mark.parametrize("glitch", GLITCHES.values(), ids=GLITCHES)
async def test_a_clock_that_is_wrong_for_six_seconds_changes_nothing(host: Host, glitch: timedelta):
    job_id = await host.start()
    await host.pass_by(20 * PERIOD)
    host.ahead = glitch
    await host.pass_by(6 * SECOND, each=2 * SECOND)
    host.ahead = timedelta(0)
    await host.pass_by(4 * SECOND, each=2 * SECOND)
    await host.pass_by(10 * PERIOD)
    assert host.due_times(job_id) == ten_seconds(1, 31)
    assert host.skips(job_id) == []
    assert host.rig.events("clock.jumped") == []


@pytest.mark.parametrize("glitch", GLITCHES.values(), ids=GLITCHES)
async def test_a_clock_that_is_wrong_for_five_minutes_loses_no_history_and_doubles_no_run(
    host: Host, glitch: timedelta
):
    job_id = await host.start()
    await host.pass_by(20 * PERIOD)
    before = host.due_times(job_id)
    host.ahead = glitch
    await host.pass_by(30 * PERIOD)
    host.ahead = timedelta(0)
    await host.pass_by(30 * PERIOD)
    ran = host.due_times(job_id)
    assert len(host.rig.events("clock.jumped")) == 2
    assert set(before) <= set(ran), "retention has deleted by a clock that had just jumped"
    assert len(ran) == len(set(ran)), "a due time ran twice"
    assert len(host.skips(job_id)) <= 4, "each gap is one skip"
    assert ran[-1] <= host.wall() or glitch > timedelta(0)
    assert set(ten_seconds(59, 80)) <= set(ran), "the schedule goes on as soon as the clock is believed"
    assert host.rig.store.audit.problems() == []


async def test_history_is_deleted_by_number_though_the_clock_has_just_jumped(host: Host, monkeypatch):
    monkeypatch.setattr("ostinato.store.history.MOST_KEPT", 10)
    job_id = await host.start()
    await host.pass_by(20 * PERIOD)
    host.rig.store.clock_record.jumped(host.wall())
    host.uptime.advance(HOUR)
    host.sweeper.tidy()
    assert len(host.due_times(job_id)) == 10


async def test_history_is_deleted_by_age_again_a_day_after_the_jump(host: Host):
    job_id = await host.start()
    await host.pass_by(20 * PERIOD)
    host.rig.store.clock_record.jumped(host.wall() + 40 * DAY)
    host.uptime.advance(40 * DAY + DAY - MINUTE)
    host.clock.remeasure()
    host.sweeper.tidy()
    assert len(host.due_times(job_id)) == 20
    host.uptime.advance(2 * MINUTE)
    host.sweeper.tidy()
    assert len(host.due_times(job_id)) == KEEP.executions


async def test_an_answer_is_kept_though_the_clock_has_jumped_beyond_its_day(host: Host):
    answers, asked = host.rig.store.answers, RepeatableRequest("ann", "k", "0")
    answers.begin(asked, NOW)
    answers.finish(asked, Answered(201, "{}", "made"))
    host.rig.store.clock_record.jumped(NOW + 40 * DAY)
    assert answers.begin(asked, NOW + 40 * DAY) == Answered(201, "{}", "made")
    assert answers.begin(asked, NOW + 41 * DAY) is None  # the clock has settled: it is old


# -- starting


def test_a_start_long_after_the_last_worker_deletes_nothing_by_age_for_a_day(host: Host):
    """The host was off, or its clock is ahead: the process cannot know."""
    seen(host, "lost")
    host.uptime.advance(2 * DAY)
    again(host).start()
    assert not host.rig.store.clock_record.settled(host.wall())
    assert host.rig.store.clock_record.settled(host.wall() + DAY)


def test_a_start_long_after_a_worker_that_stopped_in_order_may_delete(host: Host):
    seen(host, "stopped")
    host.uptime.advance(2 * DAY)
    again(host).start()
    assert host.rig.store.clock_record.settled(host.wall())


def test_a_start_before_the_last_sign_of_a_worker_waits_a_minute_and_is_then_a_step(host: Host):
    host.ahead = HOUR
    ahead = Host(host.rig)
    ahead.ahead = HOUR
    (job_id,) = host.rig.add(every=DAY)
    host.rig.sql("UPDATE {jobs} SET computed_at = :at, next_due_at = :due", at=NOW + HOUR, due=NOW + 25 * HOUR)
    host.ahead = timedelta(0)
    seen(host, None, at=NOW + HOUR)
    late = again(host)
    late.start()
    assert late.step().wake_at == NOW + SECOND
    assert host.rig.job(job_id).facts.next_due_at == NOW + 25 * HOUR
    assert host.rig.events("clock.jumped") == []
    host.uptime.advance(HOLDS_FOR)
    late.step()
    late.step()
    assert host.rig.job(job_id).facts.computed_at <= host.wall()
    assert len(host.rig.events("clock.jumped")) == 1
    assert not host.rig.store.clock_record.settled(host.wall())


def test_a_start_whose_clock_comes_right_meanwhile_is_no_step(host: Host):
    seen(host, None, at=NOW + 30 * SECOND)
    late = again(host)
    late.start()
    late.step()
    host.uptime.advance(30 * SECOND)
    late.step()
    assert host.rig.events("clock.jumped") == []


def again(host: Host) -> Dispatcher:
    """Start a dispatcher by the clock of the host."""
    host.rig.clock = MeasuredClock(host.wall, host.uptime.monotonic, own_host=host.own)  # type: ignore[assignment]
    return host.rig.dispatcher()


def seen(host: Host, closed_as: str | None, at: datetime = NOW) -> None:
    """Save a worker that was last seen at an instant."""
    workers, worker = host.rig.store.workers, NewWorker(host.rig.chance.id(at), "a", "h", 1, "1", (), (), 1)
    workers.join(worker, at, LEASE)
    host.rig.sql("UPDATE {workers} SET started_at = started_at - 1")
    if closed_as is not None:
        host.rig.sql("UPDATE {workers} SET closed_at = :at, closed_as = :how", at=at, how=closed_as)


# -- the line of a SQLite file


@pytest.fixture
def record(rig: Rig) -> ClockRecord:
    if not boot_id():
        pytest.skip("this system has no boot id")
    return rig.store.clock_record


async def test_a_process_takes_over_the_line_while_a_lease_is_good_on_it(rig: Rig, record: ClockRecord):
    await rig.worker()
    assert record.zero(5.0) is None
    record.keep_zero(NOW - 5 * SECOND)
    assert record.zero(5.0) == NOW - 5 * SECOND
    assert record.zero(5.0 + LEASE.total_seconds()) is None, "the lease is over"
    record.keep_zero(NOW - HOUR)
    assert record.zero(5.0) is None, "the lease was renewed in the future of this line"


async def test_a_line_of_before_a_restart_of_the_host_is_not_taken_over(rig: Rig, record: ClockRecord, monkeypatch):
    await rig.worker()
    record.keep_zero(NOW - 5 * SECOND)
    monkeypatch.setattr("ostinato.store.clock_record.boot_id", lambda: "another")
    assert record.zero(5.0) is None


async def test_a_worker_on_sqlite_keeps_its_line(host: Host):
    if not host.own:
        return
    await host.start()
    await host.pass_by(3 * PERIOD)
    assert host.rig.store.clock_record.zero(host.uptime.monotonic()) == host.clock.zero == NOW
