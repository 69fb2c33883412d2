"""The test kit, used as by a user: these tests are also its documentation."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from ostinato import Context, Ostinato
from ostinato.core.errors import Conflict, NotFound, UnknownTask
from ostinato.core.model import SkipReason
from ostinato.task import Defer, GiveUp, RetryLater
from ostinato.testing import fixture, simulate

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

app = Ostinato("shop", database_url="sqlite:////nowhere/real.db")
seen: list[tuple[str, datetime]] = []
told: list[dict] = []


@app.task(every="30m")
def refresh_prices(region: str = "eu") -> dict[str, int]:
    seen.append((region, app.now()))
    return {region: len(seen)}


@app.task
async def send_email(ctx: Context, to: str) -> str:
    await asyncio.sleep(60)  # simulated: a minute
    return ctx.occurrence_key if to == "key" else f"sent to {to}"


@app.task(retries=2, backoff="1m")
def unreliable(until: int = 99) -> str:
    if len(seen) < until:
        seen.append(("unreliable", app.now()))
        raise ValueError("not yet")
    return "at last"


@app.task(timeout="5m")
async def forgetful() -> None:
    await asyncio.Event().wait()


@app.on("job:failed")
def tell(event: dict) -> None:
    told.append(event)


sim = fixture(app)  # a pytest fixture in one line


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()
    told.clear()


# -- time


def test_a_day_and_a_half_of_a_job_that_runs_every_half_hour(sim):
    sim.advance("36h")
    runs = sim.executions("refresh_prices")
    assert [run.status for run in runs] == ["completed"] * 72
    assert [run.due_at for run in runs] == [MONDAY + n * HOUR / 2 for n in range(1, 73)]


def test_everything_runs_at_its_due_time_and_not_only_at_the_end(sim):
    sim.advance("2h")
    assert [at for _, at in seen] == [MONDAY + n * HOUR / 2 for n in (1, 2, 3, 4)]
    assert sim.executions("refresh_prices")[0].started_at == MONDAY + HOUR / 2


def test_no_time_passes_unless_it_is_told_to(sim):
    sim.run_pending()
    assert sim.now == MONDAY
    assert sim.executions() == []


def test_time_goes_on_to_an_instant(sim):
    sim.advance_to(MONDAY + timedelta(days=1, hours=9))
    assert sim.now == datetime(2026, 1, 6, 9, tzinfo=UTC)
    assert len(seen) == 66


def test_what_is_enqueued_runs_when_somebody_lets_it(sim):
    handle = send_email.enqueue(to="ada")
    sim.run_pending()
    assert handle.status == "running"
    sim.advance("59s")
    assert handle.status == "running"
    sim.advance("1s")
    assert handle.result("0s") == "sent to ada"
    assert sim.executions(handle)[0].duration == MINUTE


def test_what_is_enqueued_for_later_runs_then(sim):
    handle = refresh_prices.enqueue_in("10m", region="us")
    sim.advance("9m")
    assert handle.status == "scheduled"
    sim.advance("1m")
    assert seen == [("us", MONDAY + 10 * MINUTE)]


def test_a_weekday_job_rests_at_the_weekend():
    office = Ostinato("office")

    @office.task(cron="0 9 * * mon-fri", timezone="Europe/Paris")
    def report() -> None: ...

    with simulate(office) as sim:
        sim.advance("14d")
        due = [run.due_at for run in sim.executions("report")]
    assert len(due) == 10
    assert {at.hour for at in due} == {8}


# -- outcomes


def test_an_error_of_a_task_is_an_outcome_as_in_life(sim):
    handle = unreliable.enqueue(until=2)
    sim.advance("1h")
    runs = sim.executions(handle)
    assert [run.status for run in runs] == ["failed", "failed", "completed"]
    assert [run.started_at - MONDAY for run in runs] == [0 * MINUTE, 1 * MINUTE, 3 * MINUTE]  # the backoff
    assert runs[0].error == "not yet"


def test_hooks_have_been_told_when_time_stands_still_again(sim):
    unreliable.enqueue()
    sim.run_pending()
    assert [event["error"] for event in told] == ["ValueError: not yet"]


def test_a_task_can_be_replaced_by_one_that_does_what_the_test_wants(sim):
    answers = iter([RetryLater("5m"), Defer("10m"), GiveUp("no use")])

    def fake(to: str) -> None:
        raise next(answers)

    sim.replace("send_email", fake)
    handle = send_email.using(retries=3).enqueue(to="ada")
    sim.advance("1h")
    runs = sim.executions(handle)
    assert [run.status for run in runs] == ["failed", "failed"]
    assert runs[1].started_at == MONDAY + 15 * MINUTE  # retried after 5 minutes, then deferred by 10
    assert handle.status == "failed"


def test_a_timeout_comes_at_its_time(sim):
    handle = forgetful.enqueue()
    sim.advance("1h")
    (run,) = sim.executions(handle)
    assert run.outcome == "timed_out"
    assert run.finished_at == MONDAY + 5 * MINUTE


def test_a_task_that_takes_long_meets_its_next_due_time(sim):
    sim.takes("refresh_prices", "45m")
    sim.advance("2h")
    assert [run.due_at - MONDAY for run in sim.executions("refresh_prices")] == [HOUR / 2, 3 * HOUR / 2]
    assert [(skip.reason, skip.first_due_at) for skip in sim.skips("refresh_prices")] == [
        (SkipReason.OVERLAP, MONDAY + HOUR),
        (SkipReason.OVERLAP, MONDAY + 2 * HOUR),
    ]


# -- operators


def test_operators_do_what_they_do_in_life(sim):
    sim.jobs.pause("refresh_prices", by="ops")
    sim.advance("3h")
    sim.jobs.resume("refresh_prices", by="ops")
    sim.advance("30m")
    assert [at for _, at in seen] == [MONDAY + 3.5 * HOUR]
    assert [(skip.reason, skip.count) for skip in sim.skips("refresh_prices")] == [(SkipReason.PAUSED, 6)]
    told = [event.kind for event in sim.events("refresh_prices")]
    assert told == ["job.created", "job.paused", "job.resumed"]


def test_a_cancelled_run_stops(sim):
    handle = forgetful.enqueue()
    sim.run_pending()
    handle.cancel(by="ops")
    sim.run_pending()
    assert sim.executions(handle)[0].outcome == "cancelled"


# -- workers


def test_what_a_crashed_worker_ran_is_lost_and_another_takes_it(sim):
    handle = send_email.enqueue(to="ada")
    sim.run_pending()
    sim.crash("w1")
    sim.worker("w2")
    sim.advance("29s")
    assert [run.status for run in sim.executions(handle)] == ["running"]  # the lease is still good
    sim.advance("2m")
    lost, again = sim.executions(handle)
    assert lost.outcome == "lost"
    assert lost.finished_at - MONDAY <= timedelta(seconds=30 + 2 * 10)  # lease + 2 sweeps
    assert (again.number, again.attempt, again.status) == (lost.number, 1, "completed")
    assert sim.problems() == []


def test_nothing_is_lost_while_nobody_is_there_to_see(sim):
    sim.crash("w1")
    sim.advance("3h")
    assert sim.executions() == []
    sim.worker("w2")
    sim.advance("30m")
    assert [(skip.reason, skip.count) for skip in sim.skips("refresh_prices")] == [(SkipReason.MISSED, 5)]
    assert len(seen) == 2  # the newest that was missed, and the one that came due since


def test_a_worker_that_wakes_up_late_can_harm_nothing(sim):
    slow = sim.worker("w1")
    handle = send_email.enqueue(to="ada")
    sim.run_pending()
    sim.pause(slow)
    sim.worker("w2")
    sim.advance("10m")
    assert [run.outcome for run in sim.executions(handle)] == ["lost", "completed"]
    sim.wake(slow)
    sim.advance("1m")
    assert [run.outcome for run in sim.executions(handle)] == ["lost", "completed"]
    assert "result.refused" in [event.kind for event in sim.events(handle)]
    assert len({row.id for row in sim.worker_rows()}) == 3  # it came back under a new id


def test_a_worker_that_stops_hands_back_what_it_runs_and_spends_nothing(sim):
    handle = send_email.enqueue(to="ada")
    sim.run_pending()
    sim.stop("w1")
    assert [run.status for run in sim.executions(handle)] == ["queued"]
    sim.worker("w2")
    sim.advance("1m")
    (run,) = sim.executions(handle)
    assert (run.attempt, run.status) == (0, "completed")


def test_a_worker_goes_by_a_name(sim):
    assert sim.worker("w1") is sim.worker("w1")
    assert [worker.name for worker in sim.workers] == ["w1"]
    with pytest.raises(NotFound):
        sim.crash("w7")


def test_the_clock_can_be_set_as_by_an_operator(sim):
    sim.advance("1h")
    sim.set_clock(MONDAY + 5 * HOUR)
    sim.advance("1m")
    assert [(skip.reason, skip.count) for skip in sim.skips("refresh_prices")] == [(SkipReason.MISSED, 7)]


# -- the kit itself


def test_two_simulations_with_one_seed_are_the_same():
    def ids() -> list:
        with simulate(app, workers=2, seed=7) as sim:
            sim.advance("3h")
            return [(run.id, run.worker_id) for run in sim.executions()]

    assert ids() == ids()


def test_retention_keeps_what_it_is_told_to_keep():
    frugal = Ostinato("frugal", keep_days=2, keep_executions=5)

    @frugal.task(every="1h")
    def hourly() -> None: ...

    with simulate(frugal) as sim:
        sim.advance("5d")
        assert 48 <= len(sim.executions("hourly")) <= 50
        assert sim.jobs.get("hourly").facts.completed == 120
        assert sim.problems() == []


def test_the_apps_own_database_is_not_touched():
    with simulate(app) as sim:
        sim.advance("1h")
    assert app._parts is None


async def use_inside_a_loop(sim):
    handle = send_email.enqueue(to="ada")
    sim.advance("1m")
    return handle.status


def test_it_can_be_used_inside_a_running_loop(sim):
    assert asyncio.run(use_inside_a_loop(sim)) == "completed"


def test_tasks_may_use_threads(sim):
    sim.replace("send_email", threaded)
    handle = send_email.enqueue(to="ada")
    sim.run_pending()
    assert handle.result("0s") == "ada"


async def threaded(to: str) -> str:
    return await asyncio.to_thread(str, to)


def test_work_that_never_ends_is_told_and_not_waited_for(sim, monkeypatch):
    monkeypatch.setattr("ostinato.testing.simulation.MOST_ROUNDS", 20)

    def again(to: str) -> None:
        send_email.enqueue(to=to)

    sim.replace("send_email", again)
    send_email.enqueue(to="ada")
    with pytest.raises(Conflict, match="still work at the same instant"):
        sim.run_pending()


def test_only_tasks_that_exist_can_be_told_what_to_do(sim):
    with pytest.raises(UnknownTask):
        sim.takes("refresh_price", "1m")


def test_the_name_of_a_task_finds_its_scheduled_and_its_enqueued_runs(sim):
    by_hand = refresh_prices.enqueue()
    sim.advance("30m")
    runs = sim.executions("refresh_prices")
    assert [run.status for run in runs] == ["completed"] * 2
    assert runs[0].job_id == by_hand.id != runs[1].job_id
    assert [run.job_id for run in sim.executions(by_hand)] == [by_hand.id]


def test_a_task_that_has_never_run_has_no_executions_and_a_name_of_nothing_is_an_error(sim):
    assert sim.executions("forgetful") == []
    with pytest.raises(NotFound):
        sim.executions("nothing")
