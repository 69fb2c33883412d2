"""What the simulation has found, each as a story of its own."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ostinato import Ostinato
from ostinato.testing import simulate

HOUR = timedelta(hours=1)


def test_an_execution_that_was_released_by_hand_comes_back_before_its_old_run_has_ended():
    """Seed 1: the second claim took the place of the first run, whose end was then a KeyError."""
    app = Ostinato("stubborn")

    @app.task
    async def stubborn() -> str:
        try:
            await asyncio.sleep(10)  # simulated
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)  # simulated
        return "done"

    with simulate(app) as sim:
        handle = stubborn.enqueue()
        sim.run_pending()
        app.executions.release(sim.executions(handle)[0].id)
        sim.run_pending()
        assert sim.worker("w1").running == 2  # the old run has not stopped yet
        sim.advance("1m")
        assert handle.result("0s") == "done"
        assert [run.attempt for run in sim.executions(handle)] == [0]


def test_a_due_time_that_the_window_leaves_out_is_not_fired_ahead_again_and_again():
    """Seed 2: half a second before it the dispatcher said that it had moved something, for ever."""
    app = Ostinato("office")

    @app.task(every="1h", window={"from": "09:00", "to": "17:00"})
    def greet() -> None: ...

    with simulate(app) as sim:
        sim.advance("24h")
        assert len(sim.executions("greet")) == 8


def test_history_that_is_kept_for_a_century_reaches_back_before_1970():
    """Found on the way: no id could be made for the oldest event to keep."""
    app = Ostinato("archive", keep_days=36_500)
    with simulate(app) as sim:
        sim.advance("2h")
        assert sim.problems() == []


def test_what_ended_before_the_clock_was_set_back_is_not_settled_in_the_future():
    """With a fixed delay the settle names the next time: it was a day away, and nobody looked before."""
    app = Ostinato("heart")

    @app.task(every="10m", fixed_delay=True)
    def beat() -> None: ...

    with simulate(app) as sim:
        worker = sim.worker("w1")
        sim.clock.advance("10m")
        worker.renew()
        worker.dispatcher.step()
        worker.do(worker.worker.step)
        sim.set_clock(sim.now - timedelta(days=1))
        worker.dispatcher.step()
        worker.do(worker.worker.flush)
        sim.advance("1h")
        assert len(sim.executions("beat")) == 7


def test_a_run_once_job_that_is_retried_before_its_time_by_a_clock_set_back_comes_to_its_end():
    """Seed 6200: its one time seemed to lie ahead again, so the job was over and never ended."""
    app = Ostinato("once")

    @app.task
    def once() -> None:
        if app.now().hour:
            raise ValueError("too late")

    with simulate(app) as sim:
        handle = once.enqueue_in("2h")
        sim.advance("2h")
        assert handle.status == "failed"
        sim.set_clock(sim.now - timedelta(minutes=90))
        sim.jobs.retry(handle.id)
        sim.advance("10m")
        assert handle.status == "completed"
        sim.advance("3h")
        assert len(sim.executions(handle)) == 2


def test_a_schedule_that_is_made_to_have_ended_records_what_had_come_due_since():
    """Seed 5058: due times between the new end and the edit that nobody had fired yet had no record."""
    app = Ostinato("short")

    @app.task(every="10m")
    def often() -> None: ...

    with simulate(app) as sim:
        begun = sim.now
        sim.clock.advance("3h")  # nobody is there to fire
        app.jobs.edit("often", lambda job: replace(job, policies=replace(job.policies, end_at=begun + 2 * HOUR)))
        sim.run_pending()
        recorded = len(sim.executions("often")) + sum(skip.count for skip in sim.skips("often"))
        assert recorded == 18


def test_a_first_run_at_once_is_not_lost_when_the_clock_is_set_back_before_it_starts():
    """Seed 8168: it was taken back as if the schedule would name it again, and the job had nothing left to do."""
    app = Ostinato("newborn")

    @app.task(cron="0 * * * *", first_run="now", end_at=datetime(2026, 1, 5, 0, 50, tzinfo=UTC))
    def greet() -> None: ...

    with simulate(app, start=datetime(2026, 1, 5, 0, 40, tzinfo=UTC)) as sim:
        sim.set_clock(sim.now - timedelta(minutes=20))
        sim.advance("1h")
        assert [run.status for run in sim.executions("greet")] == ["completed"]
        assert sim.jobs.get("greet").status == "completed"


def test_a_clock_set_back_to_before_the_start_of_a_schedule_finds_it_starting_there():
    """Seed 11288: the schedule counted from where the clock had been, and its first times were passed over."""
    app, begun = Ostinato("later"), datetime(2026, 1, 5, tzinfo=UTC)

    @app.task(every="6h", start_at=begun - 6 * HOUR)
    def later() -> None: ...

    with simulate(app, start=begun + timedelta(minutes=1)) as sim:
        sim.set_clock(begun - 19 * HOUR)
        sim.advance("19h")
        assert [run.due_at for run in sim.executions("later")] == [begun - 6 * HOUR, begun]


def test_after_a_reset_the_schedule_goes_on_from_now_though_the_clock_was_ahead():
    """Seed 14586: it went on from where the clock had been, and the times between had no record."""
    app, begun = Ostinato("fragile"), datetime(2026, 1, 5, tzinfo=UTC)
    broken = [True]

    @app.task(every="10m", retries=1, retry_reset_period="30m", when_exhausted="wait_reset")
    def fragile() -> None:
        if broken:
            raise ValueError("no")

    with simulate(app) as sim:
        sim.advance("10m")
        sim.set_clock(begun + 5 * HOUR)
        sim.run_pending()
        sim.set_clock(begun + HOUR)
        broken.clear()
        sim.advance("1h")
        completed = [run for run in sim.executions("fragile") if run.status == "completed"]
        assert [run.started_at for run in completed] == [begun + timedelta(minutes=n) for n in (90, 100, 110, 120)]
